/* TAGE-lite (after Seznec and Michaud 2006): a bimodal table and six tagged ones with histories of 6 to 200 branches. The longest
 * history that knows the branch decides; a new entry that has proved nothing yet leaves the word to the next shorter one. */
#include "predictors.h"

#include <string.h>

static const unsigned history_length[CV_TAGE_TABLES] = {6, 12, 24, 48, 96, 200};

void cv_tage_start(cv_tage *tage)
{
    memset(tage, 0, sizeof *tage);
    memset(tage->bimodal, 2, sizeof tage->bimodal);
    memset(tage->own, 2, sizeof tage->own);
}

static int step_counter(int counter, int up, int least, int most)
{
    if (up)
        return counter < most ? counter + 1 : most;
    return counter > least ? counter - 1 : least;
}

/* After a misprediction: a new entry in a table with a longer history, where a useless one can go. */
static void allocate(cv_tage *tage, cv_tage_entry *const *entry, const uint16_t *tag, int provider, int taken)
{
    for (int table = cv_history_table(&tage->random, provider, CV_TAGE_TABLES); table < CV_TAGE_TABLES; table++) {
        if (entry[table]->useful) {
            entry[table]->useful--;
            continue;
        }
        *entry[table] = (cv_tage_entry){tag[table], (int8_t)(taken ? 0 : -1), 0};
        return;
    }
}

unsigned cv_tage_step(cv_tage *tage, cv_history *history, uint64_t branch, int taken)
{
    cv_tage_entry *entry[CV_TAGE_TABLES];
    uint16_t tag[CV_TAGE_TABLES];
    uint8_t *const bimodal = &tage->bimodal[branch % CV_TAGE_BIMODAL], *const last = &tage->own[branch % CV_TAGE_BIMODAL];
    int provider = -1, next = -1, base = *bimodal >= 2; /* next: the next shorter history that knows the branch */
#pragma GCC unroll 6
    for (int table = CV_TAGE_TABLES - 1; table >= 0; table--) {
        const uint64_t h = cv_history_hash(history, history_length[table], (unsigned)table, branch);
        entry[table] = &tage->tagged[table][h % CV_TAGE_ENTRIES];
        tag[table] = (uint16_t)(1 + (h >> 20) % 1023);
        if (entry[table]->tag != tag[table])
            continue;
        if (provider >= 0) { /* still shorter ones need not be asked */
            next = table;
            break;
        }
        provider = table;
    }
    int predicted = base;
    const int other = next < 0 ? base : entry[next]->counter >= 0;
    if (provider >= 0) {
        cv_tage_entry *e = entry[provider];
        int own = e->counter >= 0, fresh = !e->useful && (e->counter == 0 || e->counter == -1);
        predicted = fresh ? other : own;
        if (own != other)
            e->useful = (uint8_t)step_counter(e->useful, own == taken, 0, 3);
        e->counter = (int8_t)step_counter(e->counter, taken, -4, 3);
    } else {
        *bimodal = (uint8_t)step_counter(*bimodal, taken, 0, 3);
    }
    if (predicted != taken)
        allocate(tage, entry, tag, provider, taken);
    cv_history_add(history, (uint64_t)taken, 1);
    const int overrides = predicted != (*last >= 2);
    *last = (uint8_t)step_counter(*last, taken, 0, 3);
    if (predicted != taken)
        return CV_VISIT_MISPREDICTED;
    return overrides ? CV_VISIT_OVERRIDDEN : 0;
}
