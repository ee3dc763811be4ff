/* SPDX-License-Identifier: GPL-2.0-or-later
 * Names of the functions that synchronize, and the code that calls back where they are entered and where they return. */
#include "synchronization.h"
#include "private.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_debuginfo.h"

struct known {
    const HChar *name;
    enum kind kind;
};

static const struct known functions[] = {
    {"pthread_create", CREATE},
    {"pthread_join", JOIN},
    {"pthread_mutex_lock", LOCK},
    {"pthread_mutex_timedlock", TRY},
    {"pthread_mutex_trylock", TRY},
    {"pthread_mutex_unlock", UNLOCK},
    {"pthread_rwlock_wrlock", LOCK},
    {"pthread_rwlock_unlock", UNLOCK},
    {"pthread_spin_lock", LOCK},
    {"pthread_spin_trylock", TRY},
    {"pthread_spin_unlock", UNLOCK},
    {"pthread_cond_wait", WAIT},
    {"pthread_cond_timedwait", WAIT},
    {"pthread_cond_clockwait", WAIT},
    {"pthread_cond_signal", SIGNAL},
    {"pthread_cond_broadcast", BROADCAST},
    {"pthread_barrier_wait", BARRIER},
    {"sem_wait", ACQUIRE},
    {"sem_timedwait", ACQUIRE},
    {"sem_clockwait", ACQUIRE},
    {"sem_trywait", ACQUIRE},
    {"sem_post", RELEASE},
    {"omp_set_lock", SPINNING_LOCK},
    {"omp_unset_lock", UNLOCK},
    {"GOMP_barrier", TEAM_BARRIER},
    {"GOMP_loop_end", TEAM_BARRIER},
    {"GOMP_sections_end", TEAM_BARRIER},
    {"GOMP_sections_start", CHUNK_INT},
    {"GOMP_sections_next", CHUNK_INT},
    {"GOMP_critical_start", CRITICAL_BEGIN},
    {"GOMP_critical_end", CRITICAL_END},
    {"GOMP_atomic_start", CRITICAL_BEGIN},
    {"GOMP_atomic_end", CRITICAL_END},
    {"GOMP_critical_name_start", SPINNING_LOCK},
    {"GOMP_critical_name_end", UNLOCK},
    {"GOMP_task", TASK},
    {"GOMP_taskwait", TASK_WAIT},
    {"GOMP_taskgroup_end", TASK_WAIT},
    {"kmpc_omp_task", TASK_OBJECT},
    {"kmpc_omp_task_with_deps", TASK_OBJECT},
    {"kmpc_omp_task_begin_if0", TASK_AT_ONCE},
    {"kmpc_omp_task_complete_if0", TASK_COMPLETE},
    {"kmpc_taskloop", LOOP_OBJECT},
    {"kmpc_taskloop_5", LOOP_OBJECT},
    {"kmpc_omp_taskwait", TASK_WAIT_ALL},
    {"kmpc_omp_taskwait_51", TASK_WAIT_ALL},
    {"kmpc_end_taskgroup", TASK_WAIT_ALL},
    {"kmpc_fork_call", FORK_CALL},
    {"kmpc_barrier", TEAM_BARRIER},
    {"kmpc_reduce", TEAM_BARRIER},
    {"kmpc_reduce_nowait", TEAM_BARRIER},
    {"kmpc_dispatch_next_4", CHUNK_INT},
    {"kmpc_dispatch_next_4u", CHUNK_INT},
    {"kmpc_dispatch_next_8", CHUNK_INT},
    {"kmpc_dispatch_next_8u", CHUNK_INT},
    {"kmpc_critical", LOCK_SECOND},
    {"kmpc_critical_with_hint", LOCK_SECOND},
    {"kmpc_end_critical", UNLOCK_SECOND},
};

Bool cv_translations_stale;

static Bool begins_with(const HChar *name, const HChar *with) { return !VG_(strncmp)(name, with, VG_(strlen)(with)); }

static Bool ends_with(const HChar *name, const HChar *with)
{
    SizeT n = VG_(strlen)(name), m = VG_(strlen)(with);
    return n >= m && !VG_(strcmp)(name + n - m, with);
}

/* The C library's tables have several names for one function, with versions; Valgrind tells one of them. */
static enum kind kind_of(const HChar *name)
{
    HChar plain[64];
    while (*name == '_')
        name++;
    if (begins_with(name, "GI_"))
        for (name += 3; *name == '_';)
            name++;
    if (begins_with(name, "new_"))
        name += 4;
    UInt n = 0;
    while (name[n] && name[n] != '@' && n < sizeof plain - 1) {
        plain[n] = name[n];
        n++;
    }
    plain[n] = 0;
    if (begins_with(plain, "GOMP_parallel") && !ends_with(plain, "_start") && !ends_with(plain, "_end"))
        return PARALLEL;
    if (begins_with(plain, "GOMP_loop") && (ends_with(plain, "_start") || ends_with(plain, "_next")) && !VG_(strstr)(plain, "ordered"))
        return CHUNK;
    if (begins_with(plain, "GOMP_taskloop"))
        return TASK_LOOP;
    for (UInt i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!VG_(strcmp)(functions[i].name, plain))
            return functions[i].kind;
    return NOTHING;
}

static IRExpr *get(IRSB *out, Int offset) { return cv_ir_assign(out, IRExpr_Get(offset, Ity_I64)); }

#define GUEST(register) get(out, offsetof(VexGuestAMD64State, guest_##register))

void cv_synchronization_instrument_entry(IRSB *out, Addr start)
{
    const HChar *name;
    if (!cv_options.thread_events)
        return;
    if (cv_body_is_known(start))
        cv_ir_call(out, "cv_synchronization_body", cv_synchronization_body,
                   mkIRExprVec_4(cv_ir_u64(start), GUEST(RSP), GUEST(RDI), GUEST(RSI)), NULL);
    if (!VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), start, &name))
        return;
    enum kind kind = kind_of(name);
    if (kind != NOTHING)
        cv_ir_call(out, "cv_synchronization_entered", cv_synchronization_entered,
                   mkIRExprVec_6(cv_ir_u64(kind), GUEST(RSP), GUEST(RDI), GUEST(RSI), GUEST(RDX), GUEST(RCX)), NULL);
}

void cv_synchronization_instrument_end(IRSB *out)
{
    if (!cv_threads_active() || out->jumpkind != Ijk_Ret)
        return;
    IRExpr *wanted = cv_ir_load64(out, cv_ir_u64((Addr)&cv_return_awaited));
    IRExpr *returned_to = cv_ir_assign(out, IRExpr_Binop(Iop_CmpEQ64, GUEST(RSP), wanted));
    cv_ir_call(out, "cv_synchronization_left", cv_synchronization_left, mkIRExprVec_2(GUEST(RAX), out->next), returned_to);
}

void cv_synchronization_discard(void)
{
    if (!cv_translations_stale)
        return;
    cv_translations_stale = False;
    VG_(ok_to_discard_translations) = True;
    VG_(discard_translations)(0x1000, 0x7fffffffe000, "convolver");
    VG_(ok_to_discard_translations) = False;
}
