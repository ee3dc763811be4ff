/* The functions of a path (simd.h), made of those of pack.h, select.h, survey.h and tally_few.h for its instruction set. Included
 * once, after them, with PATH(name) as the name of a function of the path. */
size_t PATH(pack)(cv_pack_job *job, unsigned lag, uint64_t *records)
{
    /* A copy in registers: the records that are written could otherwise be its fields. */
    cv_pack_job local = *job;
    size_t n = pack(&local, lag, records);
    job->status = local.status;
    return n;
}

void PATH(tally)(cv_tally *t, const uint32_t *id, size_t n, uint32_t largest)
{
    if (largest <= UINT16_MAX)
        tally_few(t, id, n);
    else
        tally(t, id, n);
}

void PATH(charge)(cv_tally *t, const uint32_t *owner, const uint64_t *out, size_t n)
{
    if (owner)
        charge(t, owner, out, n);
    else
        charge_few(t, out, n);
}

void PATH(select)(cv_lines *lines, const cv_refs *refs, uint32_t line_shift, cv_selection selection, cv_cursor *cursor)
{
    select_lines(lines, refs, line_shift, selection, cursor);
}

cv_survey PATH(survey)(const cv_refs *refs, uint32_t line_shift, bool lines) { return survey(refs, line_shift, lines); }
