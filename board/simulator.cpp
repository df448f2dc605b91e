// A board in simulation: the Verilated top behind a pseudo-terminal.
//
//   board DIVISOR
//
// Prints the path of the terminal, then serves it until standard input ends. The line is simulated bit by bit, DIVISOR clock cycles a bit.
// A line "reset" on standard input pulls the board's reset. While nothing is asked and nothing runs, no clock cycles pass.

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include "Vpenstock_board.h"
#include "verilated.h"

namespace {

constexpr int BATCH = 512;       // clock cycles between two looks at the terminal
constexpr int BROKEN = 64;       // and the rule that was: how the process ends
constexpr int QUIET_BITS = 24;   // of the line, after which nothing more comes

[[noreturn]] void fail(const char* what) {
    std::perror(what);
    std::exit(1);
}

struct Bench {
    VerilatedContext context;
    Vpenstock_board top{&context, ""};
    int divisor;
    std::deque<uint8_t> to_board;
    std::deque<uint8_t> from_board;
    int sent = -1, send_wait = 0;        // the bit on its way, and cycles left of it
    int got = -1, get_wait = 0;
    uint16_t sending = 0, getting = 0;
    int64_t quiet = 0;

    void clock() {
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
        send();
        receive();
        quiet = top.busy || sent >= 0 || got >= 0 || !to_board.empty() ? 0 : quiet + 1;
    }

    void send() {
        if (sent >= 0 && --send_wait > 0) return;
        if (sent >= 0) sent = sent == 9 ? -1 : sent + 1;
        if (sent < 0) {
            if (to_board.empty()) return;
            sending = uint16_t(0x200 | to_board.front() << 1);
            to_board.pop_front();
            sent = 0;
        }
        top.rx = sending >> sent & 1;
        send_wait = divisor;
    }

    void receive() {
        if (got < 0) {
            if (top.tx) return;
            got = 0;
            getting = 0;
            get_wait = divisor + divisor / 2;
        }
        if (--get_wait > 0) return;
        if (got < 8) getting |= uint16_t(top.tx << got);
        get_wait = divisor;
        if (++got <= 8) return;
        if (top.tx) from_board.push_back(uint8_t(getting));
        got = -1;
    }

    // The rule of the memory chip that was broken; 0 where none was, or there is no chip.
    int broken() {
        return broken_of(top, 0);
    }

    template <class Top>
    static auto broken_of(Top& top, int) -> decltype(int(top.broken)) {
        return top.broken;
    }

    template <class Top>
    static int broken_of(Top&, long) {
        return 0;
    }

    void reset() {
        to_board.clear();
        sent = got = -1;
        top.rx = 1;
        top.rst = 1;
        for (int i = 0; i < 4; i++) clock();
        top.rst = 0;
        for (int i = 0; i < 4; i++) clock();
    }
};

int terminal() {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) fail("pseudo-terminal");
    const char* name = ptsname(master);
    int slave = name ? open(name, O_RDWR | O_NOCTTY) : -1;  // kept open: a host may come and go
    if (slave < 0) fail("pseudo-terminal");
    termios raw;
    if (tcgetattr(slave, &raw)) fail("pseudo-terminal");
    cfmakeraw(&raw);
    if (tcsetattr(slave, TCSANOW, &raw)) fail("pseudo-terminal");
    if (fcntl(master, F_SETFL, O_NONBLOCK)) fail("pseudo-terminal");
    std::printf("%s\n", name);
    std::fflush(stdout);
    return master;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    Bench bench;
    bench.divisor = std::atoi(argv[1]);
    bench.reset();
    int master = terminal();
    for (;;) {
        bool idle = bench.quiet > int64_t(QUIET_BITS) * bench.divisor && bench.from_board.empty();
        pollfd files[2] = {{master, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
        if (poll(files, 2, idle ? -1 : 0) < 0) fail("poll");
        if (files[1].revents) {
            char line[64];
            if (read(STDIN_FILENO, line, sizeof line) <= 0) return 0;
            bench.reset();
        }
        if (files[0].revents & POLLIN) {
            uint8_t bytes[4096];
            ssize_t n = read(master, bytes, sizeof bytes);
            if (n <= 0) return 0;
            bench.to_board.insert(bench.to_board.end(), bytes, bytes + n);
            bench.quiet = 0;
        }
        while (!bench.from_board.empty()) {
            // Where nobody reads, a byte is lost, as on a line.
            if (write(master, &bench.from_board.front(), 1) != 1 && errno != EAGAIN) return 0;
            bench.from_board.pop_front();
        }
        if (!idle || bench.quiet == 0)
            for (int i = 0; i < BATCH; i++) bench.clock();
        if (bench.broken()) return BROKEN + bench.broken();
    }
}
