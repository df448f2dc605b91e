// Drives one dot product: lines of "gap a_words... b_words..." in hexadecimal in, its results out.
#include <cstdio>
#include <deque>
#include "Vdot.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

template <class T>
static void put(T& port, unsigned word, unsigned index) {
    if constexpr (VlIsVlWide<T>::value) port[index] = word;
    else port = index ? (port & T(0xFFFFFFFFu)) | (T(word) << (8 * sizeof(T) - 32)) : T(word);
}

int main(int argc, char** argv) {
    const unsigned words = std::atoi(argv[1]), stages = std::atoi(argv[2]);
    Vdot dot;
    std::deque<bool> flight(stages - 1, false);
    const auto cycle = [&](bool enter) {
        dot.en = enter;
        dot.clk = 0;
        dot.eval();
        flight.push_back(enter);
        if (flight.front()) std::printf("%08x\n", dot.o);
        else if (dot.o) std::printf("idle output %08x\n", dot.o);
        flight.pop_front();
        dot.clk = 1;
        dot.eval();
    };
    unsigned gap, word;
    dot.rst = 0;
    while (std::scanf("%x", &gap) == 1) {
        while (gap--) cycle(false);
        for (unsigned i = 0; i < words; i++) if (std::scanf("%x", &word) == 1) put(dot.a, word, i);
        for (unsigned i = 0; i < words; i++) if (std::scanf("%x", &word) == 1) put(dot.b, word, i);
        cycle(true);
    }
    for (unsigned i = 0; i < stages; i++) cycle(false);
}
