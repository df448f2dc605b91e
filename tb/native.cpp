// The test bench's memory: what the probes see, the off-chip lines, the streams from and to the outside.
//
// Verilator's executable calls the penstock_dpi_* functions, Python calls the penstock_tb_* functions of the same
// loaded library, so that nothing crosses into Python while the clock runs. One simulation per process.
// PENSTOCK_CLASSES is WRITE(bits) for each class of beats (machine/limits.py).

#include <cstdint>
#include <cstring>
#include <unordered_set>
#include <vector>

namespace {

using Words = const uint32_t*;

struct Channel {
    bool keep = false;              // whether whole beats are kept
    uint32_t n_words = 0;
    std::vector<int64_t> accept, take;
    std::vector<uint8_t> stop, data;
    std::vector<uint64_t> digest;
    std::vector<uint32_t> words;
    std::vector<uint32_t> inside;   // beats that are in the channel, from `first` on
    size_t first = 0;
};

struct Line {
    int64_t accept, deliver, address;
    uint64_t digest;  // of what is written
    uint8_t write;
};

struct Port {
    std::vector<Line> lines;
    std::unordered_set<uint32_t> reading;  // tags in flight; a store counts its acknowledgements and may reuse its tag
};

struct Source {
    uint32_t n_words = 0;
    std::vector<uint32_t> words;
    std::vector<int64_t> release;
    uint64_t next = 0;
};

struct Sink {
    std::vector<int64_t> release;
    uint64_t taken = 0;
};

struct Fault {
    int64_t code = 0;  // native.py lists them
    int64_t cycle = 0, index = 0, value = 0;
};

// How a physical FIFO's beat is the beat of a channel: runs of bits that move.
struct Move {
    uint32_t from, to, bits;  // at most 32 bits
};

struct Format {
    int width = 0;              // of the channel's beat
    std::vector<Move> moves;
    std::vector<uint32_t> used; // bits of the FIFO's beat that move
};

std::vector<Format> formats;
std::vector<int32_t> channel_of, format_of;  // by FIFO; empty: a FIFO is the channel of its number
std::vector<uint32_t> moved;
std::vector<int32_t> places_of;  // by channel; empty: not compared

std::vector<Channel> channels;
std::vector<Port> ports;
std::vector<Source> sources;
std::vector<Sink> sinks;
std::vector<int64_t> posts;  // unit, cycle, page and change of each
int mutant = 0;  // number of the one that is on (0: none)
Fault fault;

// A line in the DRAM: slots are handed to the DRAM model as plain numbers and come back as such.
struct Slot {
    uint32_t port, tag, line;
    bool write;
    uint8_t data[64];  // what was read, a line
};
std::vector<Slot> slots;
std::vector<int64_t> free_slots;
uint8_t* memory = nullptr;
std::vector<uint64_t> range_of_port;  // first byte, and first byte after it
uint32_t port_lanes = 1, response_lanes = 1, line_bytes = 64;
std::vector<int64_t> ids, addresses, delivered;  // of a cycle, by lane
std::vector<uint8_t> writes;
std::vector<uint8_t> waits;  // by cycle, repeated: whether the memory takes no request in it
int64_t in_flight = 0, lines_read = 0, lines_written = 0;

// DRAM model: takes the `n` lines (by slot number) that reach it in cycle `now`, writes the slot numbers it delivers in
// cycle `now + 1` to `out` (at most `response_lanes`) and returns how many.
constexpr int64_t MISFIT = -2;  // instead of how many: a line is not the recorded one
using Dram = int64_t (*)(int64_t now, int64_t n, const int64_t* slots_in, const int64_t* address, const uint8_t* write, int64_t* out, void* state);
Dram dram = nullptr;
void* dram_state = nullptr;

int64_t cycle_limit = 0, idle_limit = 0, quiet_cycles = 0;
int64_t now_cycle = 0, last_activity = 0, done_cycle = -1, first_request = -1;
int error_flags = 0;
int64_t error_unit = -1, error_cycle = -1;  // of the first fault; of several in a cycle the lowest unit's
int halt_reason = 0;  // 1 done and quiet, 2 cycle limit, 3 no activity, 4 error flag, 5 fault

void set_fault(int64_t code, int64_t cycle, int64_t index, int64_t value) {
    if (!fault.code) fault = {code, cycle, index, value};
}

const uint64_t FNV_OFFSET = 0xcbf29ce484222325ull;

uint64_t fnv(uint64_t h, uint32_t word) { return (h ^ word) * 0x100000001b3ull; }

// The channel of a FIFO, and the beat as the channel's; false: no channel is there.
bool as_channel(int& id, int cycle, Words& beat, int& width) {
    if (channel_of.empty()) return true;
    if (size_t(id) >= channel_of.size() || channel_of[id] < 0) {
        set_fault(8, cycle, id, 0);
        return false;
    }
    const Format& f = formats[format_of[id]];
    moved.assign(size_t(f.width + 31) / 32, 0);
    for (const Move& m : f.moves) {
        uint64_t value = beat[m.from / 32];
        if (m.from % 32 + m.bits > 32) value |= uint64_t(beat[m.from / 32 + 1]) << 32;
        value = (value >> (m.from % 32)) & ((uint64_t(1) << m.bits) - 1);
        value <<= m.to % 32;
        moved[m.to / 32] |= uint32_t(value);
        if (m.to % 32 + m.bits > 32) moved[m.to / 32 + 1] |= uint32_t(value >> 32);
    }
    for (int i = 0; i < (width + 31) / 32; i++)
        if (beat[i] & ~f.used[i]) set_fault(9, cycle, id, i);
    id = channel_of[id];
    beat = moved.data();
    width = f.width;
    return true;
}

// A part that is simulated apart is not told the cycle.
int told(int cycle) { return cycle < 0 ? int(now_cycle) : cycle; }

void record_write(int id, int cycle, int places, Words beat, int width) {
    cycle = told(cycle);
    if (!as_channel(id, cycle, beat, width)) return;
    if (id < 0 || size_t(id) >= channels.size()) return;
    if (size_t(id) < places_of.size() && places != places_of[id]) set_fault(10, cycle, id, places);
    Channel& c = channels[id];
    uint32_t n = uint32_t(width + 31) / 32;
    uint64_t h = FNV_OFFSET;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t w = beat[i];
        if (i == n - 1 && width % 32) w &= (1u << (width % 32)) - 1;
        h = fnv(h, w);
        if (c.keep) c.words.push_back(w);
    }
    c.inside.insert(c.inside.end(), beat, beat + n);
    auto bit = [&](int k) { return (beat[k / 32] >> (k % 32)) & 1u; };
    c.n_words = n;
    c.digest.push_back(h);
    c.data.push_back(uint8_t(bit(width - 1)));
    c.stop.push_back(uint8_t(bit(width - 5) | bit(width - 4) << 1 | bit(width - 3) << 2 | bit(width - 2) << 3));
    c.accept.push_back(cycle);
    last_activity = cycle;
}

void record_take(int id, int cycle, Words beat, int width) {
    cycle = told(cycle);
    if (!as_channel(id, cycle, beat, width)) return;
    if (id < 0 || size_t(id) >= channels.size()) return;
    Channel& c = channels[id];
    size_t n = size_t(width + 31) / 32;
    if (c.take.size() >= c.accept.size()) {
        set_fault(5, cycle, id, int64_t(c.take.size()));
    } else {
        if (std::memcmp(&c.inside[c.first], beat, n * 4)) set_fault(7, cycle, id, int64_t(c.take.size()));
        c.first += n;
        if (c.first == c.inside.size() || c.first > 65536) {
            c.inside.erase(c.inside.begin(), c.inside.begin() + int64_t(c.first));
            c.first = 0;
        }
    }
    c.take.push_back(cycle);
    last_activity = cycle;
}

}  // namespace

extern "C" {

// ---- from Verilog ----------------------------------------------------------------------------------------------------

#define WRITE(BITS) \
    void penstock_dpi_write_##BITS(int id, int cycle, int places, int width, Words beat) { record_write(id, cycle, places, beat, width); } \
    void penstock_dpi_take_##BITS(int id, int cycle, int width, Words beat) { record_take(id, cycle, beat, width); }
PENSTOCK_CLASSES

void penstock_dpi_post(int unit, int cycle, int page, int change) { posts.insert(posts.end(), {unit, told(cycle), page, change}); }

// Present beat of a source for cycle `next`; `taken`: the one presented in the cycle before was accepted.
unsigned char penstock_dpi_source(int index, int next, unsigned char taken, uint32_t* beat) {
    if (size_t(index) >= sources.size()) return 0;
    Source& s = sources[index];
    s.next += taken;
    if (s.next >= s.release.size()) return 0;
    if (s.release[s.next] > next) {
        last_activity = next;  // waiting for its release is not idleness
        return 0;
    }
    std::memcpy(beat, &s.words[s.next * s.n_words], s.n_words * 4);
    return 1;
}

unsigned char penstock_dpi_sink(int index, int next, unsigned char taken) {
    if (size_t(index) >= sinks.size()) return 1;
    Sink& s = sinks[index];
    s.taken += taken;
    if (s.taken < s.release.size() && s.release[s.taken] > next) {
        last_activity = next;
        return 0;
    }
    return 1;
}

// The lines that reach the DRAM in `cycle`; fills in the lines delivered in the next one.
void penstock_dpi_memory(int cycle, Words req_valid, unsigned char req_write, int req_port, int req_group, Words req_addr, Words req_data,
                         Words req_mask, uint32_t* rsp_valid, uint32_t* rsp_port, uint32_t* rsp_tag, uint32_t* rsp_data) {
    int64_t n = 0;
    for (uint32_t lane = 0; lane < port_lanes; lane++) {
        if (!((req_valid[lane / 32] >> (lane % 32)) & 1)) continue;
        uint64_t address = req_addr[lane];
        if (req_port < 0 || size_t(req_port) >= ports.size()) {
            set_fault(2, cycle, req_port, int64_t(address));
            continue;
        }
        Port& p = ports[req_port];
        if (address % line_bytes || address < range_of_port[2 * req_port] || address + line_bytes > range_of_port[2 * req_port + 1]) {
            set_fault(1, cycle, req_port, int64_t(address));
            continue;
        }
        uint32_t tag = uint32_t(req_group) * port_lanes + lane;
        if (!req_write && !p.reading.insert(tag).second) set_fault(3, cycle, req_port, tag);
        p.lines.push_back({cycle - 1, -1, int64_t(address), 0, req_write});
        if (req_write) {
            lines_written++;
            Words data = req_data + lane * line_bytes / 4;
            uint32_t written[16] = {}, masked[2] = {};
            for (uint32_t b = 0; b < line_bytes; b++)
                if (uint32_t bit = lane * line_bytes + b; (req_mask[bit / 32] >> (bit % 32)) & 1) {
                    masked[b / 32] |= 1u << (b % 32);
                    memory[address + b] = uint8_t(data[b / 4] >> (b % 4 * 8));
                    written[b / 4] |= data[b / 4] & (0xffu << (b % 4 * 8));
                }
            uint64_t h = FNV_OFFSET;
            for (uint32_t b = 0; b < line_bytes; b += 4) h = fnv(h, written[b / 4]);
            for (uint32_t b = 0; b < line_bytes; b += 32) h = fnv(h, masked[b / 32]);
            p.lines.back().digest = h;
        } else {
            lines_read++;
        }
        int64_t slot;
        if (free_slots.empty()) {
            slot = int64_t(slots.size());
            slots.push_back({});
        } else {
            slot = free_slots.back();
            free_slots.pop_back();
        }
        Slot& s = slots[slot];
        s.port = uint32_t(req_port);
        s.tag = tag;
        s.line = uint32_t(p.lines.size()) - 1;
        s.write = req_write;
        if (!req_write) std::memcpy(s.data, memory + address, line_bytes);
        ids[n] = slot;
        addresses[n] = int64_t(address);
        writes[n++] = req_write;
        in_flight++;
        last_activity = cycle;
        if (first_request < 0) first_request = cycle - 1;
    }
    for (uint32_t i = 0; i < response_lanes; i += 32) rsp_valid[i / 32] = 0;
    if (!dram || (!n && !in_flight)) return;
    int64_t k = dram(cycle, n, ids.data(), addresses.data(), writes.data(), delivered.data(), dram_state);
    if (k < 0 || k > response_lanes) {
        set_fault(k == MISFIT ? 11 : 6, cycle, 0, k);
        return;
    }
    for (int64_t i = 0; i < k; i++) {
        const Slot& s = slots[delivered[i]];
        rsp_valid[i / 32] |= 1u << (i % 32);
        rsp_port[i] = s.port;
        rsp_tag[i] = s.tag;
        if (!s.write) std::memcpy(rsp_data + i * line_bytes / 4, s.data, line_bytes);
        Port& p = ports[s.port];
        p.lines[s.line].deliver = cycle + 1;
        if (!s.write) p.reading.erase(s.tag);
        free_slots.push_back(delivered[i]);
        in_flight--;
        last_activity = cycle + 1;
    }
}

unsigned char penstock_dpi_request_ready(int next) { return waits.empty() || !waits[size_t(next) % waits.size()]; }

int penstock_dpi_mutant() { return mutant; }

void penstock_dpi_fault(int unit, int cycle) {
    cycle = told(cycle);
    bool first = error_unit < 0 || cycle < error_cycle;
    if (first || (cycle == error_cycle && unit < error_unit)) error_unit = unit, error_cycle = cycle;
}

// Once a cycle; returns whether the bench should stop.
unsigned char penstock_dpi_tick(int cycle, unsigned char done, int error) {
    if (cycle != now_cycle) set_fault(4, now_cycle, cycle, 0);
    if (done && done_cycle < 0) done_cycle = cycle;
    now_cycle++;
    if (halt_reason) return 1;
    if (fault.code) halt_reason = 5;
    else if (error) halt_reason = 4, error_flags = error;
    else if (done_cycle >= 0 && cycle - (last_activity > done_cycle ? last_activity : done_cycle) >= quiet_cycles) halt_reason = 1;
    else if (cycle_limit && cycle + 1 >= cycle_limit) halt_reason = 2;
    else if (idle_limit && done_cycle < 0 && !in_flight && cycle - last_activity > idle_limit) halt_reason = 3;  // a response that is due will move something
    return halt_reason != 0;
}

// ---- from Python -----------------------------------------------------------------------------------------------------

// Forget the last run; called while reset is high.
void penstock_tb_begin(int64_t n_channels, int64_t n_ports, int64_t n_sources, int64_t n_sinks) {
    channels.assign(size_t(n_channels), {});
    ports.assign(size_t(n_ports), {});
    sources.assign(size_t(n_sources), {});
    sinks.assign(size_t(n_sinks), {});
    waits.clear();
    formats.clear();
    channel_of.clear();
    format_of.clear();
    places_of.clear();
    posts.clear();
    slots.clear();
    free_slots.clear();
    fault = {};
    in_flight = lines_read = lines_written = 0;
    now_cycle = last_activity = 0;
    done_cycle = first_request = -1;
    halt_reason = 0;
    dram = nullptr;
    memory = nullptr;
    error_flags = 0;
    error_unit = error_cycle = -1;
}

void penstock_tb_limits(int64_t cycles, int64_t idle, int64_t quiet) {
    cycle_limit = cycles;
    idle_limit = idle;
    quiet_cycles = quiet;
}

void penstock_tb_memory(uint8_t* image, const uint64_t* ranges, int64_t lanes, int64_t responses, int64_t line, Dram model, void* state) {
    memory = image;
    range_of_port.assign(ranges, ranges + 2 * ports.size());
    port_lanes = uint32_t(lanes);
    response_lanes = uint32_t(responses);
    line_bytes = uint32_t(line);
    ids.resize(port_lanes);
    addresses.resize(port_lanes);
    writes.resize(port_lanes);
    delivered.resize(response_lanes);
    dram = model;
    dram_state = state;
}

void penstock_tb_waits(int64_t n, const uint8_t* pattern) { waits.assign(pattern, pattern + n); }

// A format, by number: runs of bits as triples (from, to, bits).
void penstock_tb_format(int64_t width, int64_t n, const int64_t* triples, int64_t fifo_width) {
    Format f;
    f.width = int(width);
    f.used.assign(size_t(fifo_width + 31) / 32, 0);
    for (int64_t i = 0; i < n; i++) {
        Move m = {uint32_t(triples[3 * i]), uint32_t(triples[3 * i + 1]), uint32_t(triples[3 * i + 2])};
        f.moves.push_back(m);
        for (uint32_t k = m.from; k < m.from + m.bits; k++) f.used[k / 32] |= 1u << (k % 32);
    }
    formats.push_back(f);
}

// What each FIFO is: a channel (-1: none) and a format.
void penstock_tb_fifos(int64_t n, const int32_t* channel, const int32_t* format) {
    channel_of.assign(channel, channel + n);
    format_of.assign(format, format + n);
}

// Places of each channel.
void penstock_tb_places(int64_t n, const int32_t* places) { places_of.assign(places, places + n); }

void penstock_tb_keep(int64_t channel) { channels[size_t(channel)].keep = true; }

void penstock_tb_source(int64_t index, int64_t beats, int64_t n_words, const uint32_t* words, const int64_t* release) {
    Source& s = sources[size_t(index)];
    s.n_words = uint32_t(n_words);
    s.words.assign(words, words + beats * n_words);
    s.release.assign(release, release + beats);
    s.next = 0;
}

void penstock_tb_sink(int64_t index, int64_t n, const int64_t* release) {
    Sink& s = sinks[size_t(index)];
    s.release.assign(release, release + n);
    s.taken = 0;
}

void penstock_tb_mutant(int64_t number) { mutant = int(number); }

// accepted, taken, words kept
void penstock_tb_channel_size(int64_t channel, int64_t* out) {
    const Channel& c = channels[size_t(channel)];
    out[0] = int64_t(c.accept.size());
    out[1] = int64_t(c.take.size());
    out[2] = int64_t(c.words.size());
}

void penstock_tb_channel(int64_t channel, int64_t* accept, int64_t* take, uint8_t* stop, uint8_t* data, uint64_t* digest, uint32_t* words) {
    const Channel& c = channels[size_t(channel)];
    size_t n = c.accept.size();
    for (size_t i = 0; i < n; i++) take[i] = i < c.take.size() ? c.take[i] : -1;
    if (!n) return;
    std::memcpy(accept, c.accept.data(), n * 8);
    std::memcpy(stop, c.stop.data(), n);
    std::memcpy(data, c.data.data(), n);
    std::memcpy(digest, c.digest.data(), n * 8);
    if (!c.words.empty()) std::memcpy(words, c.words.data(), c.words.size() * 4);
}

int64_t penstock_tb_port_size(int64_t port) { return int64_t(ports[size_t(port)].lines.size()); }

int64_t penstock_tb_post_size() { return int64_t(posts.size() / 4); }

void penstock_tb_posts(int64_t* out) {
    if (!posts.empty()) std::memcpy(out, posts.data(), posts.size() * 8);
}

void penstock_tb_port(int64_t port, int64_t* accept, int64_t* deliver, int64_t* address, uint64_t* digest) {
    size_t i = 0;
    for (const Line& line : ports[size_t(port)].lines) {
        accept[i] = line.accept;
        deliver[i] = line.deliver;
        digest[i] = line.digest;
        address[i++] = line.address;
    }
}

// halt reason, done cycle, cycles seen, first request, lines in flight, lines read, lines written, fault (code, cycle, index, value), error flags, unit of the first
void penstock_tb_status(int64_t* out) {
    const int64_t values[] = {halt_reason, done_cycle, now_cycle, first_request, in_flight, lines_read, lines_written,
                              fault.code, fault.cycle, fault.index, fault.value, error_flags, error_unit};
    std::memcpy(out, values, sizeof values);
}

}  // extern "C"
