/* Measured costs of point-to-point messages: curves over the size, linear between the points and beyond the last. */
#include "internal.h"

double cv_message_cost(const simulation *s, const double *curve, int64_t bytes)
{
    const cv_replay_network *net = s->net;
    uint32_t low = 0, high = net->cost_points - 1;
    double size = (double)bytes;
    if (high == 0)
        return curve[0];
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (net->cost_bytes[middle] <= size)
            low = middle;
        else
            high = middle;
    }
    double slope = (curve[high] - curve[low]) / (net->cost_bytes[high] - net->cost_bytes[low]);
    double found = curve[low] + slope * (size - net->cost_bytes[low]);
    return found > 0 ? found : 0;
}
