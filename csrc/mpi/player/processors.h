/* How many processors the ranks of a host have between them. SPDX-License-Identifier: MIT */
#ifndef CONVOLVER_PLAYER_PROCESSORS_H
#define CONVOLVER_PLAYER_PROCESSORS_H

struct host {
    int ranks, processors;
};

/* Returns, to all ranks, the host with the fewest processors a rank; collective over all ranks. */
struct host fullest_host(void);

#endif
