// Threads of C++: thread i does i + 1 parts of work a round. Each round ends at a barrier of C++20 (a futex) or, with a word, at a
// condition variable.
#include <barrier>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "spin.h"

constexpr int THREADS = 4, ROUNDS = 10;
constexpr long TURNS = 300000;

int main(int count, char **)
{
    std::mutex lock;
    std::condition_variable all;
    std::barrier together(THREADS);
    double sum = 0;
    int arrived = 0, round = 0;
    auto meet = [&] {
        std::unique_lock<std::mutex> guard(lock);
        int mine = round;
        if (++arrived == THREADS) {
            arrived = 0;
            round++;
            all.notify_all();
        } else {
            all.wait(guard, [&] { return round != mine; });
        }
    };
    std::vector<std::thread> made;
    for (int number = 0; number < THREADS; number++)
        made.emplace_back([&, number] {
            for (int r = 0; r < ROUNDS; r++) {
                double mine = spin(TURNS * (number + 1));
                {
                    std::lock_guard<std::mutex> guard(lock);
                    sum += mine;
                }
                if (count > 1)
                    meet();
                else
                    together.arrive_and_wait();
            }
        });
    for (auto &one : made)
        one.join();
    std::printf("%.3f\n", sum);
}
