// Runs parts side by side on random inputs; prints for each the first cycle in which they differ, or -1.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include "Vtop.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

int main(int argc, char** argv) {
    const int parts = std::atoi(argv[1]), cycles = std::atoi(argv[2]);
    Vtop top;
    std::mt19937 random(7);
    std::vector<int> first(parts, -1);
    for (int c = 0; c < cycles; c++) {
        top.clk = 0;
        top.rst = c < 2 || random() % 1000 == 0;
        top.full = c / 64 % 3;
        for (auto& word : top.given.m_storage) word = random();
        top.eval();
        for (int k = 0; k < parts; k++)
            if (c > 2 && first[k] < 0 && top.differs >> k & 1) first[k] = c;
        top.clk = 1;
        top.eval();
    }
    for (int at : first) std::printf("%d\n", at);
}
