/* Pieces of path kept one after another until a reader takes them. */
#include "cv_paths.h"
#include "grow.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    cv_path about;
    size_t visits, firsts, references; /* where its arrays begin */
} cv_kept_path;

struct cv_path_collector {
    uint32_t *segments, *first, *sites;
    uint64_t *addresses;
    cv_kept_path *kept;
    size_t visits, firsts, references, count;
    size_t segment_capacity, first_capacity, site_capacity, address_capacity, kept_capacity;
};

cv_path_collector *cv_path_collector_new(void) { return calloc(1, sizeof(cv_path_collector)); }

void cv_path_collector_free(cv_path_collector *collector)
{
    if (!collector)
        return;
    free(collector->segments);
    free(collector->first);
    free(collector->sites);
    free(collector->addresses);
    free(collector->kept);
    free(collector);
}

cv_status cv_path_collector_sink(void *context, const cv_path *path)
{
    cv_path_collector *to = context;
    CV_RESERVE(to->segments, to->segment_capacity, to->visits + path->visits);
    CV_RESERVE(to->first, to->first_capacity, to->firsts + path->visits + 1);
    CV_RESERVE(to->sites, to->site_capacity, to->references + path->references + 1);
    CV_RESERVE(to->addresses, to->address_capacity, to->references + path->references + 1);
    CV_RESERVE(to->kept, to->kept_capacity, to->count + 1);
    to->kept[to->count++] = (cv_kept_path){*path, to->visits, to->firsts, to->references};
    memcpy(to->segments + to->visits, path->segments, path->visits * sizeof *to->segments);
    memcpy(to->first + to->firsts, path->first_reference, (path->visits + 1) * sizeof *to->first);
    if (path->references) {
        memcpy(to->sites + to->references, path->sites, path->references * sizeof *to->sites);
        memcpy(to->addresses + to->references, path->addresses, path->references * sizeof *to->addresses);
    }
    to->visits += path->visits;
    to->firsts += path->visits + 1;
    to->references += path->references;
    return CV_OK;
}

size_t cv_path_collector_count(const cv_path_collector *collector) { return collector->count; }

void cv_path_collector_get(const cv_path_collector *collector, size_t index, cv_path *path)
{
    const cv_kept_path *kept = &collector->kept[index];
    *path = kept->about;
    path->segments = collector->segments + kept->visits;
    path->first_reference = collector->first + kept->firsts;
    path->sites = collector->sites + kept->references;
    path->addresses = collector->addresses + kept->references;
}

void cv_path_collector_clear(cv_path_collector *collector)
{
    collector->visits = collector->firsts = collector->references = collector->count = 0;
}
