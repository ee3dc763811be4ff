/* SPDX-License-Identifier: GPL-2.0-or-later
 * Which segments are recorded (--only): those that begin in given ranges of given files. All are counted.
 *
 * The file has a line for each range: its first offset and the offset after it in the object file, in hexadecimal, and the object
 * file's path (* stands for every file). Lines that begin with # are comments. */
#include "tracer.h"
#include "pub_tool_libcfile.h"

struct range {
    ULong first, end;
    const HChar *path;
};

static struct range *ranges;
static UInt n_ranges, ranges_room;
static Bool everything = True;

static HChar *read_file(const HChar *path)
{
    struct vg_stat status;
    Int file = VG_(fd_open)(path, VKI_O_RDONLY, 0);
    if (file < 0 || VG_(fstat)(file, &status) != 0)
        cv_fatal("cannot read the list of ranges %s", path);
    HChar *text = VG_(malloc)("cv.only", status.size + 1);
    SizeT length = 0;
    Int got = 0;
    while (length < (SizeT)status.size && (got = VG_(read)(file, text + length, status.size - length)) > 0)
        length += got;
    VG_(close)(file);
    text[length] = '\0';
    return text;
}

static void add_line(HChar *line)
{
    HChar *at = line;
    struct range range = {.first = VG_(strtoull16)(at, &at)};
    if (at == line || *at != ' ')
        cv_fatal("a range must read FIRST END PATH: %s", line);
    range.end = VG_(strtoull16)(at, &at);
    if (*at++ != ' ' || !*at || range.end <= range.first)
        cv_fatal("a range must read FIRST END PATH: %s", line);
    range.path = at;
    ranges = cv_with_room(ranges, &ranges_room, n_ranges + 1, sizeof *ranges);
    ranges[n_ranges++] = range;
}

void cv_selection_open(void)
{
    if (!cv_options.only)
        return;
    everything = False;
    for (HChar *line = read_file(cv_options.only), *next; *line; line = next) {
        next = line;
        while (*next && *next != '\n')
            next++;
        if (*next)
            *next++ = '\0';
        if (*line && *line != '#')
            add_line(line);
    }
}

/* Called once for each segment, so a linear search does. */
Bool cv_selected(const HChar *path, ULong file_offset)
{
    for (UInt i = 0; i < n_ranges; i++)
        if (file_offset >= ranges[i].first && file_offset < ranges[i].end &&
            (!VG_(strcmp)(ranges[i].path, "*") || !VG_(strcmp)(ranges[i].path, path)))
            return True;
    return everything;
}
