// Drives two dot products side by side: lines of "gap a_words... b_words..." in hexadecimal in, both results out.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include "Vtop.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

int main(int argc, char** argv) {
    const unsigned words = std::atoi(argv[1]), stages = std::atoi(argv[2]);
    Vtop top;
    std::deque<bool> flight(stages - 1, false);
    const auto cycle = [&](bool enter) {
        top.en = enter;
        top.clk = 0;
        top.eval();
        flight.push_back(enter);
        if (flight.front()) std::printf("%08x %08x\n", top.fp32, top.bf16);
        else if (top.fp32 || top.bf16) std::printf("idle output\n");
        flight.pop_front();
        top.clk = 1;
        top.eval();
    };
    unsigned gap;
    top.rst = 0;
    while (std::scanf("%x", &gap) == 1) {
        while (gap--) cycle(false);
        for (unsigned i = 0; i < words; i++) if (std::scanf("%x", &top.a[i]) != 1) return 1;
        for (unsigned i = 0; i < words; i++) if (std::scanf("%x", &top.b[i]) != 1) return 1;
        cycle(true);
    }
    for (unsigned i = 0; i < stages; i++) cycle(false);
}
