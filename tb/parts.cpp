// A design whose parts are simulated apart: each is a library with a Verilated class, and ports are joined by copying.
//
// A cycle: all parts see the rising edge, then what they give is carried to the parts that read it, until nothing
// changes. A part whose state and inputs stay the same over a cycle sleeps until one of its inputs changes: its next
// cycle would be the same again.

#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <vector>

namespace {

const int ROUNDS = 1000;   // of a cycle, after which its values are said not to settle
const int STILL = 4;       // cycles without a change of its inputs, after which a part's state is looked at
const int LONGEST = 256;   // between two looks

struct Class {
    void* (*make)();
    void (*eval)(void*);
    void* (*state)(void*, int64_t*);
    int64_t (*port)(void*, const char*, void**);
};

struct Wire {
    uint8_t *from, *to;
    uint32_t bytes, reader;
};

struct Part {
    const Class* of;
    void* model;
    uint8_t *clk, *rst;
    std::vector<Wire> wires;
    bool sleeps = false;        // whether it may
    bool awake = true;
    bool due = true;            // an input has changed since it was evaluated
    bool touched = false;       // or since the last edge
    int still = 0, wait = STILL;
    std::vector<uint8_t> kept;  // state, a cycle ago
};

std::vector<Class*> classes;
std::vector<Part> parts;
std::string failure;
int64_t evaluations = 0;

int64_t port(const Part& p, const char* name, void** at) { return p.of->port(p.model, name, at); }

inline bool differs(const Wire& w) {
    if (w.bytes == 1) return *w.from != *w.to;
    return std::memcmp(w.from, w.to, w.bytes) != 0;
}

// Carry what a part gives to those that read it.
inline void carry(Part& p) {
    for (const Wire& w : p.wires) {
        if (!differs(w)) continue;
        if (w.bytes == 1) *w.to = *w.from;
        else std::memcpy(w.to, w.from, w.bytes);
        Part& reader = parts[w.reader];
        reader.due = reader.touched = reader.awake = true;
    }
}

inline void evaluate(Part& p) {
    p.due = false;
    p.of->eval(p.model);
    evaluations++;
}

// Evaluate until no input changes; false: there is no end.
bool settle() {
    for (int round = 0; round < ROUNDS; round++) {
        bool any = false;
        for (Part& p : parts) {
            if (!p.due) continue;
            any = true;
            *p.clk = 0;
            evaluate(p);
            carry(p);
        }
        if (!any) return true;
    }
    failure = "the values between the parts do not settle";
    return false;
}

// Whether the next cycle of a part is as this one, until an input changes.
bool rests(Part& p) {
    if (p.touched || !p.sleeps) {
        p.still = 0;
        p.wait = STILL;
        return false;
    }
    if (++p.still < p.wait) return false;
    int64_t bytes;
    auto* state = static_cast<const uint8_t*>(p.of->state(p.model, &bytes));
    if (p.still == p.wait) {
        p.kept.assign(state, state + bytes);
        return false;
    }
    p.still = 0;
    if (!std::memcmp(p.kept.data(), state, size_t(bytes))) return true;
    if (p.wait < LONGEST) p.wait *= 2;
    return false;
}

bool cycle() {
    for (Part& p : parts) {
        if (!p.awake) continue;
        p.touched = false;
        *p.clk = 1;
        evaluate(p);
    }
    for (Part& p : parts) {
        if (!p.awake) continue;
        p.due = true;
        carry(p);
    }
    if (!settle()) return false;
    for (Part& p : parts)
        if (p.awake && rests(p)) p.awake = false;
    return true;
}

template <class F> F symbol(void* library, const char* name) { return reinterpret_cast<F>(dlsym(library, name)); }

}  // namespace

extern "C" {

const char* penstock_parts_failure() { return failure.c_str(); }

int64_t penstock_parts_evaluations() { return evaluations; }

// Number of a library's class; -1: it cannot be loaded.
int64_t penstock_parts_load(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        failure = dlerror();
        return -1;
    }
    auto* c = new Class;
    c->make = symbol<void* (*)()>(library, "penstock_part_make");
    c->eval = symbol<void (*)(void*)>(library, "penstock_part_eval");
    c->state = symbol<void* (*)(void*, int64_t*)>(library, "penstock_part_state");
    c->port = symbol<int64_t (*)(void*, const char*, void**)>(library, "penstock_part_port");
    classes.push_back(c);
    return int64_t(classes.size()) - 1;
}

// Number of a new part. The last one is the rest: it sees the edge after the others, and never sleeps.
int64_t penstock_parts_add(int64_t of, int64_t sleeps) {
    Part p;
    p.of = classes[size_t(of)];
    p.model = p.of->make();
    p.sleeps = sleeps != 0;
    void* at = nullptr;
    p.clk = port(p, "clk", &at) == 1 ? static_cast<uint8_t*>(at) : nullptr;
    p.rst = port(p, "rst", &at) == 1 ? static_cast<uint8_t*>(at) : nullptr;
    if (!p.clk || !p.rst) {
        failure = "a part has no clock or no reset";
        return -1;
    }
    if (int64_t bytes = sleeps ? port(p, "cycle", &at) : 0) std::memset(at, 0xff, size_t(bytes));
    parts.push_back(p);
    return int64_t(parts.size()) - 1;
}

// 0: no such ports, or of different widths.
int64_t penstock_parts_join(int64_t from, const char* output, int64_t to, const char* input) {
    void *source = nullptr, *sink = nullptr;
    int64_t bytes = port(parts[size_t(from)], output, &source);
    if (!bytes || bytes != port(parts[size_t(to)], input, &sink)) return 0;
    parts[size_t(from)].wires.push_back({static_cast<uint8_t*>(source), static_cast<uint8_t*>(sink), uint32_t(bytes), uint32_t(to)});
    return 1;
}

// Give a port of the rest a value, and let it settle.
int64_t penstock_parts_set(const char* name, int64_t value) {
    void* at = nullptr;
    Part& rest = parts.back();
    int64_t bytes = port(rest, name, &at);
    if (!bytes || bytes > 8) return 0;
    std::memcpy(at, &value, size_t(bytes));
    rest.due = true;
    return settle();
}

// Write configuration words, one a cycle. What a word reaches is evaluated at the edge that takes it, not before.
int64_t penstock_parts_write(int64_t n, const int64_t* addresses, const int64_t* words) {
    void *address = nullptr, *data = nullptr, *enable = nullptr;
    Part& rest = parts.back();
    size_t bytes = size_t(port(rest, "cfg_addr", &address));
    if (!bytes || port(rest, "cfg_data", &data) != 4 || port(rest, "cfg_we", &enable) != 1) {
        failure = "the design has no configuration port";
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        std::memcpy(address, &addresses[i], bytes);
        std::memcpy(data, &words[i], 4);
        *static_cast<uint8_t*>(enable) = 1;
        *rest.clk = 0;
        evaluate(rest);
        carry(rest);
        if (!cycle()) return 0;
    }
    *static_cast<uint8_t*>(enable) = 0;
    rest.due = true;
    return settle();
}

int64_t penstock_parts_get(const char* name) {
    void* at = nullptr;
    int64_t value = 0, bytes = port(parts.back(), name, &at);
    if (bytes && bytes <= 8) std::memcpy(&value, at, size_t(bytes));
    return value;
}

// Set the reset of all parts, and let `n` cycles pass; false: a failure.
int64_t penstock_parts_reset(int64_t value, int64_t n) {
    for (Part& p : parts) {
        if (*p.rst == value) continue;
        *p.rst = uint8_t(value);
        p.due = p.touched = p.awake = true;
    }
    if (!settle()) return 0;
    for (int64_t i = 0; i < n; i++)
        if (!cycle()) return 0;
    return 1;
}

// Let cycles pass until the rest's `halt` is high; how many, or -1: a failure.
int64_t penstock_parts_run() {
    void* at = nullptr;
    port(parts.back(), "halt", &at);
    auto* halt = static_cast<const uint8_t*>(at);
    int64_t n = 0;
    while (!*halt) {
        if (!cycle()) return -1;
        n++;
    }
    return n;
}

}  // extern "C"
