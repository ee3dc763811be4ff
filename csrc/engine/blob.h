/* Inside of the blob: one state for the whole process, no libc, general registers only. */
#ifndef CV_BLOB_H
#define CV_BLOB_H

#include "../common/cv_assert.h"
#include "blob_shared.h"
#include "system_calls.h"
#include "x86_decode.h"

#define SHARED ((struct cv_shared *)CV_SHARED_BASE)
#define SEGMENTS ((struct cv_blob_segment *)(CV_SHARED_BASE + CV_OFF_SEGMENTS))
#define EXITS ((struct cv_blob_exit *)(CV_SHARED_BASE + CV_OFF_EXITS))
#define LISTED ((uint32_t *)(CV_SHARED_BASE + CV_OFF_LIST))
#define CODE ((uint8_t *)(CV_SHARED_BASE + CV_OFF_CODE))
#define SUPERBLOCKS ((struct cv_blob_superblock *)(CV_SHARED_BASE + CV_OFF_SUPERBLOCKS))
#define BRANCHES ((struct cv_blob_branch *)(CV_SHARED_BASE + CV_OFF_BRANCHES))
#define PLACES ((struct cv_blob_place *)(CV_SHARED_BASE + CV_OFF_PLACES))
#define cv_lookups(mode) ((uint64_t *)(CV_SHARED_BASE + CV_OFF_LOOKUP) + (uint64_t)(mode) * CV_LOOKUPS)
#define cv_slot_at(i) ((struct cv_slot *)(CV_SHARED_BASE + CV_OFF_SLOTS + (i) * CV_SLOT_BYTES))
#define MAPPINGS ((struct cv_blob_mapping *)(CV_SHARED_BASE + CV_OFF_MAPPINGS))

/* Registers of the program as SAVE (blob_entry.S) puts them on the stack. */
enum { R15, R14, R13, R12, R11, R10, R9, R8, RDI_, RSI_, RBP_, RBX_, RDX_, RCX_, RAX_, FLAGS_, SAVED_REGISTERS };

enum entry { ENTER_DISPATCH, ENTER_CALL, ENTER_POLL, ENTER_BURST_END, ENTER_RESUME, ENTER_REQUEST, ENTER_MARK, ENTER_RETURNED };
extern const uint64_t cv_table[8];
extern const char enter_resume[];

/* blob_system.c */
void *memset(void *to, int value, unsigned long n);
void *memcpy(void *to, const void *from, unsigned long n);
int64_t cv_system(int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);
void cv_lock(void);
void cv_unlock(void);
int cv_read(uint64_t from, void *to, uint64_t bytes); /* bytes that are readable there */
int cv_write(uint64_t to, const void *from, uint64_t bytes);
int cv_fetch(uint64_t address, uint8_t *code); /* up to 15 bytes of code */
void cv_forget_pages(void);
void cv_forget_mappings(void); /* all of them, as a new process does */
/* The mapping with code at an address: its number, or -1 where code must not be translated; `why` says why. */
int cv_mapping_of(uint64_t address, const char **why);
/* Opens /proc/self/maps for the program, without what the engine mapped; -1: the path is another one. */
int64_t cv_open_mappings(uint64_t path, uint64_t flags);
uint64_t cv_fill_mappings(int64_t file); /* as they are at its first read; returns how many bytes the kernel would give at most */
/* The mapping of the process, of whatever kind, that has an address: `range` becomes where it begins and ends. */
int cv_range_of(uint64_t address, uint64_t *range);
void cv_check_mappings(void);                      /* drops those that changed while the program ran natively */
int cv_drop_mappings(uint64_t low, uint64_t high); /* how many of files there were */
void cv_count_lookup_faults(void);                 /* the program ends */
int cv_is_made(uint64_t address);                  /* code that the program made itself */
void cv_close_code(void);                          /* of files: it may be read, not executed */
void cv_open_code(void);
int cv_is_file(uint64_t address); /* code of a file */
/* Whether the eight bytes at an address stay what they are; code at `user` is translated so. With the lock held. */
int cv_is_constant(uint64_t address, uint64_t user);
/* Those within a range may change: 1: `users` become addresses of the first and the last code that was translated with some; there may be
 * more. 0: no more. */
int cv_drop_constants(uint64_t low, uint64_t high, uint64_t *users);
void cv_say_why(const char *text, uint64_t address);

/* The translator (translator.h); all with the lock held.
 * blob_translate.c */
uint64_t cv_translate(int mode, uint64_t address); /* 0: cannot be */
void cv_improve(const struct cv_slot *slot);

/* blob_exits.c */
void cv_link(uint64_t site, uint64_t code);

/* blob_segments.c */
uint64_t cv_known(int mode, uint64_t address);                  /* its translation; 0: none */
void cv_enter_lookup(int mode, uint64_t target, uint64_t code); /* for indirect branches; without the lock */
int cv_forget(uint64_t low, uint64_t high);                     /* takes the lock itself; 1: there was code of files */
void cv_anew(uint64_t address);                                 /* what has a head there, or goes through it; 0: all code */
/* The program's address and state at an address of the code cache; 0: not there. */
const struct cv_blob_place *cv_place_of(uint64_t code, const struct cv_blob_superblock **block, int exact);
int cv_in_cache(uint64_t address);

/* blob_run.c */
uint64_t cv_find(struct cv_slot *slot, uint64_t target); /* where to go on for the program's address `target` */
uint64_t cv_go_native(struct cv_slot *slot, uint64_t target);
uint64_t cv_give_up(struct cv_slot *slot, uint64_t target); /* with all other threads */
uint64_t cv_poll(struct cv_slot *slot, uint64_t *registers);
void cv_do_requests(struct cv_slot *slot);
void cv_map_lookups(struct cv_slot *slot);
extern const char cv_lookup_miss[], cv_leave[], cv_plain_call[], cv_watched_call[], cv_done_call[], cv_fork_call[], cv_thread_call[];
extern const char cv_call_begin[], cv_call_end[], cv_watched_begin[], cv_watched_end[];

/* blob_parts.c */
void cv_go_on_as(struct cv_slot *slot, uint64_t mode);
uint64_t cv_begin_burst(struct cv_slot *slot);
void cv_end_part(struct cv_slot *slot, int last); /* hands what was recorded to the controller */
void cv_put_events(struct cv_slot *slot);         /* the number of events, where something is being recorded */
void cv_hand_part(struct cv_slot *slot);          /* and goes on in another one */

/* blob_threads.c */
enum { CLONE_VM = 0x100, CLONE_VFORK = 0x4000, CLONE_NEWPID = 0x20000000 };
extern int cv_other_space;                 /* children have numbers that the controller does not know */
struct cv_slot *cv_adopt(uint64_t thread); /* a slot for a thread that the engine did not see begin; 0: there is none left */
uint64_t cv_before_fork(struct cv_slot *slot, uint64_t *registers, uint64_t flags);
void cv_after_fork(struct cv_slot *slot, int64_t made); /* as the kernel says it */

/* blob_outside.c */
uint64_t cv_go_outside(struct cv_slot *slot, uint64_t target);
void cv_come_back(struct cv_slot *slot);
void cv_close_again(void);
int cv_calls_system(uint64_t page);
int cv_open_often(uint64_t address); /* with the lock held: 1: the page is open now */
extern const char cv_enter_outside[], cv_outside_begin[], cv_outside_end[];

/* blob_pace.c */
void cv_begin_heads(struct cv_slot *slot); /* of a thread */
void cv_leave_heads(struct cv_slot *slot); /* outside of what is traced */
int cv_heads_ended(struct cv_slot *slot);  /* 1: a burst begins now */
void cv_burst_begins(struct cv_slot *slot);
void cv_burst_ends(struct cv_slot *slot);
uint64_t cv_time_now(void); /* nanoseconds of the thread's processor time */

/* blob_bursts.c */
void cv_bursts_asked(const uint64_t *arguments, uint64_t *answer);
void cv_forget_bursts(void);
void cv_add_counters(int64_t *sums, int sign); /* of all threads */

/* blob_marks.c */
int cv_marks_at(uint64_t address); /* enum cv_blob_mark of a place in a file */
void cv_come_by(struct cv_slot *slot, int marks);
void cv_follow_part(struct cv_slot *slot); /* of the run, which has begun or ended */

/* blob_follow.c, nothing where threads are not followed: what they wait for (../threads/thread_calls.h) */
int cv_is_followed(uint64_t address);
void cv_follow(struct cv_slot *slot, const uint64_t *registers); /* at an address that is */
void cv_follow_thread(struct cv_slot *slot, struct cv_slot *child);
void cv_follow_end(struct cv_slot *slot);                                             /* of its thread */
int cv_follow_call(struct cv_slot *slot, uint64_t number, const uint64_t *registers); /* 1: its end, too */
int cv_follow_waits(const struct cv_slot *slot, uint64_t number); /* the call is part of one that waits, which replays give a time */
void cv_follow_called(struct cv_slot *slot, const uint64_t *registers);
void cv_follow_file(uint64_t file, uint64_t at, uint64_t offset); /* code of it has been mapped */

/* blob_log.c: the log of threads */
static inline struct cv_followed *cv_followed_by(const struct cv_slot *slot)
{
    return (struct cv_followed *)(slot->self + CV_SLOT_FOLLOWED);
}
void cv_log_begin(struct cv_slot *first); /* with the lock held */
int cv_log_room(struct cv_slot *slot);    /* without it: waits until there is; 0: nobody reads */
void cv_log_settle(struct cv_slot *slot, int always);

/* blob_objects.c; nothing without data objects */
const struct cv_blob_watched *cv_watched_at(uint64_t address);
int cv_is_watched(uint64_t address);
void cv_allocation_begins(struct cv_slot *slot, const uint64_t *registers);
int cv_changes_memory(uint64_t number);
void cv_memory_goes(struct cv_slot *slot, uint64_t number, const uint64_t *registers);
void cv_memory_changed(struct cv_slot *slot, uint64_t number, const uint64_t *registers);
void cv_note_stack(struct cv_slot *slot); /* of a new thread, which is on it */

/* blob_family.c */
int cv_family_begins(struct cv_slot *slot, const uint64_t *alternate); /* in a forked child: memory of its own; 0: it cannot be traced */
int cv_family_exec(const struct cv_slot *slot, uint64_t directory, uint64_t path); /* 1: the next program is traced, too */
void cv_family_failed(void);                                                       /* the exec did */
void cv_family_forks(int more);                                                    /* processes that will ask */

/* blob_signals.c */
extern const char cv_signal_entry[], cv_signal_return[];
void cv_save_vectors(void *area, uint64_t features);
void cv_load_vectors(const void *area, uint64_t features);
void cv_signals_begin(struct cv_slot *slot, int take_over); /* of a thread */
int64_t cv_signal_action(uint64_t number, uint64_t new, uint64_t old, uint64_t size);
int64_t cv_alternate_stack(struct cv_slot *slot, uint64_t new, uint64_t old);
void cv_signals_end(const uint64_t *alternate, int handlers); /* the program's stack, flags and size, as in the slot */
void cv_send_again(struct cv_slot *slot);                     /* the signal that waits, to the thread, which leaves with its mask */
void cv_keep_faults(void);                                    /* from now on the engine sees all of SIGSEGV */
void cv_signals_of_child(const uint64_t *alternate, uint64_t mask);
void cv_keep_stack(struct cv_slot *slot, uint64_t *stack); /* of a frame that the kernel is about to take */
void cv_block_signals(struct cv_slot *slot);
void cv_unblock_signals(struct cv_slot *slot);
uint64_t cv_deliver(struct cv_slot *slot, uint64_t *registers, uint64_t address);

#endif
