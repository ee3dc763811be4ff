"""Convolver in Python: predict a trace on two machines, then the same step by step.

python3 chain.py run/cg.cvt host.machine.json server-hbm
"""

import sys

import convolver as cv

if len(sys.argv) != 4:
    sys.exit("usage: chain.py TRACE BASE TARGET")
trace_file, base, target = sys.argv[1:]

prediction = cv.predict(trace_file, base=base, target=target)
print(f"CPU ratio {prediction.document['cpu_ratio']:.2f}, coverage {prediction.document['coverage']:.1%}")
print(prediction.table.select("function", "line", "seconds").head(3))

analysis = cv.analyze(trace_file, [base, target])
for machine in analysis.hit_rates.machines:
    for level in analysis.hit_rates.totals(machine):
        print(f"{machine} {level['level']}: {level['hits'] / level['accesses']:.1%} of {level['accesses']:,} accesses hit")

times = [cv.convolve(analysis, machine) for machine in (base, target)]
for one in times:
    print(f"{one.machine}: {one.seconds:.3f} s of user time, system time {one.total[0] - one.seconds:.3f} s")
assert times[0].ratio_to(times[1]) == prediction.cpu_ratio
