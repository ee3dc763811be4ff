// Runs events of threads in SimGrid: threads_in_simgrid CORES PARTIES < EVENTS, lines "thread kind work object"; prints elapsed seconds.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

struct event {
    std::string kind;
    double work;
    int object;
};

static std::map<int, sg::MutexPtr> locks;
static std::map<int, sg::SemaphorePtr> semaphores;
static sg::BarrierPtr everybody;

static void run(const std::vector<event> &events)
{
    for (const event &one : events) {
        if (one.work > 0)
            sg::this_actor::execute(one.work);
        if (one.kind == "lock")
            locks.at(one.object)->lock();
        else if (one.kind == "unlock")
            locks.at(one.object)->unlock();
        else if (one.kind == "barrier")
            everybody->wait();
        else if (one.kind == "acquire")
            semaphores.at(one.object)->acquire();
        else if (one.kind == "release")
            semaphores.at(one.object)->release();
    }
}

int main(int count, char **words)
{
    sg::Engine engine(&count, words);
    auto *zone = sg::create_full_zone("all");
    auto *host = zone->create_host("machine", 1.0)->set_core_count(std::atoi(words[1]))->seal();
    zone->seal();
    everybody = sg::Barrier::create(std::atoi(words[2]));
    std::map<int, std::vector<event>> threads;
    int thread, object;
    char kind[16];
    double work;
    while (std::scanf("%d %15s %lf %d", &thread, kind, &work, &object) == 4) {
        threads[thread].push_back({kind, work, object});
        if (!locks.count(object)) {
            locks[object] = sg::Mutex::create();
            semaphores[object] = sg::Semaphore::create(0);
        }
    }
    for (const auto &[number, events] : threads)
        sg::Actor::create(std::to_string(number), host, run, events);
    engine.run();
    std::printf("%.12g\n", sg::Engine::get_clock());
    return 0;
}
