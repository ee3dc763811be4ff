/* Calls setup, three times solve, and report; each adds to the elements of an array of its own, each time once. */
#include "../../../csrc/include/convolver_markers.h"

#define N 1000

long in_setup[N], in_solve[N], in_report[N];

__attribute__((noinline)) void setup(void)
{
    for (int i = 0; i < N; i++)
        in_setup[i] += i;
}

__attribute__((noinline)) void solve(void)
{
    for (int i = 0; i < N; i++)
        in_solve[i] += i;
}

__attribute__((noinline)) void report(void)
{
    for (int i = 0; i < N; i++)
        in_report[i] += i;
}

int main(void)
{
    setup();
    for (int i = 0; i < 3; i++) {
        CONVOLVER_START();
        solve();
        CONVOLVER_STOP();
    }
    report();
    return in_setup[2] + in_solve[2] + in_report[2];
}
