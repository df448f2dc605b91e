// Runs a job on a Verilated overlay: loads words, starts runs, reads values, one command after the other.
//
//   overlay JOB OUT [WAVES]
//
// WAVES: where a build for waveforms writes one.
// JOB and OUT are 32-bit little-endian words. Commands: 1 n (n payloads of `load`), 2 limit (a run of at most so many cycles),
// 3 n (n payloads of `look`), 4 n (tokens have n words).
// Answers: to 2 the words `cycles`, cycles counted here, cycles from start to the first of the run, number of writes, number of tokens; then
// what the probes saw, in order of cycles: the writes (cycle, PE, address, two words of data) and the tokens (cycle, link, words). To 3 the n values.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "Vpenstock_overlay.h"
#include "verilated.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
using Trace = VerilatedFstC;
#elif VM_TRACE
#include "verilated_vcd_c.h"
using Trace = VerilatedVcdC;
#else
struct Trace {
    void dump(uint64_t) {}
    void close() {}
};
#endif

namespace {

template <typename T> constexpr size_t words() { return (sizeof(T) + 3) / 4; }

template <typename T> void set(T& port, const uint32_t* from) {
    std::memset(&port, 0, sizeof(T));
    std::memcpy(&port, from, sizeof(T) < 4 * words<T>() ? sizeof(T) : 4 * words<T>());
}

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "overlay: %s\n", what);
    std::exit(1);
}

std::vector<uint32_t> read_file(const char* path) {
    FILE* file = std::fopen(path, "rb");
    if (!file) fail("cannot read the job");
    std::fseek(file, 0, SEEK_END);
    std::vector<uint32_t> data(std::ftell(file) / 4);
    std::rewind(file);
    if (std::fread(data.data(), 4, data.size(), file) != data.size()) fail("cannot read the job");
    std::fclose(file);
    return data;
}

// What the probes of a run have seen. The cycle is counted here, not in the overlay.
struct Seen {
    bool open = false;
    uint32_t cycle = 0, token_words = 1;
    uint32_t n_writes = 0, n_tokens = 0;
    std::vector<uint32_t> writes, tokens;

    void begin() {
        open = true;
        cycle = n_writes = n_tokens = 0;
        writes.clear();
        tokens.clear();
    }
} seen;

struct Bench {
    VerilatedContext context;
    Vpenstock_overlay top{&context, ""};
    Trace* trace = nullptr;
    std::vector<uint32_t> out;
    uint64_t clocks = 0;

    // Outputs are looked at with the clock low. Those that a run waits for, after the inputs of the cycle have settled; the others come from
    // registers, and a register takes what an input has as the clock rises.
    void settle() { top.eval(); }
    void tick() {
        top.clk = 1;
        top.eval();
        if (trace) trace->dump(10 * clocks);
        top.clk = 0;
        top.eval();
        if (trace) trace->dump(10 * clocks + 5);
        ++clocks;
    }

    const uint32_t* load(const uint32_t* at, uint32_t n) {
        settle();
        for (uint32_t i = 0; i < n; ++i, at += words<decltype(top.load_payload)>()) {
            set(top.load_payload, at);
            top.load_valid = 1;
            if (!top.load_ready) fail("a word is refused");
            tick();
        }
        top.load_valid = 0;
        return at;
    }

    void run(uint32_t limit) {
        top.start = 1;
        settle();
        tick();
        top.start = 0;
        uint32_t before = 1, during = 0;
        for (settle(); !top.running; settle(), ++before) {
            if (top.idle || before > limit) fail("the run does not begin");
            tick();
        }
        seen.begin();
        for (; !top.idle; settle(), ++during) {
            if (during > limit) fail("cycle limit reached");
            seen.cycle = during;
            tick();
        }
        seen.open = false;
        // The cycle in which the end is seen is not counted.
        out.insert(out.end(), {uint32_t(top.cycles), during - 1, before, seen.n_writes, seen.n_tokens});
        out.insert(out.end(), seen.writes.begin(), seen.writes.end());
        out.insert(out.end(), seen.tokens.begin(), seen.tokens.end());
    }

    const uint32_t* look(const uint32_t* at, uint32_t n) {
        constexpr size_t width = words<decltype(top.value)>();
        uint32_t asked = 0, read = 0, idle = 0;
        for (settle(); read < n; tick()) {
            uint32_t value[width] = {};
            std::memcpy(value, &top.value, sizeof(top.value));
            if (value[0] & 1) {  // {valid, data}
                for (size_t k = 0; k + 1 < width; ++k) out.push_back(value[k] >> 1 | value[k + 1] << 31);
                ++read;
            }
            top.look_valid = asked < n;
            if (asked < n) {
                if (!top.look_ready) fail("an address is refused");
                set(top.look_payload, at);
                at += words<decltype(top.look_payload)>();
                ++asked;
            } else if (++idle > 1000) {
                fail("a value does not come");
            }
        }
        top.look_valid = 0;
        return at;
    }
};

}  // namespace

extern "C" {

void penstock_overlay_write(int pe, int address, const uint32_t* data) {
    if (!seen.open) return;
    seen.writes.insert(seen.writes.end(), {seen.cycle, uint32_t(pe), uint32_t(address), data[0], data[1]});
    ++seen.n_writes;
}

void penstock_overlay_link(int link, const uint32_t* token) {
    if (!seen.open) return;
    seen.tokens.insert(seen.tokens.end(), {seen.cycle, uint32_t(link)});
    seen.tokens.insert(seen.tokens.end(), token, token + seen.token_words);
    ++seen.n_tokens;
}

}  // extern "C"

int main(int argc, char** argv) {
    if (argc != 3 && argc != 4) fail("takes JOB, OUT and perhaps WAVES");
    const std::vector<uint32_t> job = read_file(argv[1]);
    static Bench bench;
#if VM_TRACE
    Trace trace;
    if (argc == 4) {
        bench.context.traceEverOn(true);
        bench.top.trace(&trace, 99);
        trace.open(argv[3]);
        bench.trace = &trace;
    }
#endif
    bench.top.clk = 0;
    bench.top.rst = 1;
    bench.tick();
    bench.tick();
    bench.top.rst = 0;
    const auto start = std::chrono::steady_clock::now();
    const uint32_t* at = job.data();
    while (at < job.data() + job.size()) {
        const uint32_t command = at[0], count = at[1];
        at += 2;
        if (command == 1) at = bench.load(at, count);
        else if (command == 2) bench.run(count);
        else if (command == 3) at = bench.look(at, count);
        else if (command == 4) seen.token_words = count;
        else fail("unknown command");
    }
    bench.top.final();
    if (bench.trace) bench.trace->close();
    FILE* file = std::fopen(argv[2], "wb");
    if (!file || std::fwrite(bench.out.data(), 4, bench.out.size(), file) != bench.out.size() || std::fclose(file)) fail("cannot write the answers");
    std::printf("%llu %.6f\n", static_cast<unsigned long long>(bench.clocks), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}
