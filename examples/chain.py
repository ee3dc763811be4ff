"""Convolver in Python: predict a trace on two machines, then the same step by step.

python3 chain.py run/cg.cvt host.machine.json server-hbm
"""

import sys

import convolver as cv

trace_file, base, target = sys.argv[1:]

prediction = cv.predict(trace_file, base=base, target=target)
print(f"CPU ratio {prediction.document['cpu_ratio']:.2f}, coverage {prediction.document['coverage']:.1%}")
print(prediction.table.select("function", "line", "seconds").head(3))

trace = cv.load(trace_file)
rates = cv.simulate(trace, [base, target])
for machine in rates.machines:
    for level in rates.totals(machine):
        print(f"{machine} {level['level']}: {level['hits'] / level['accesses']:.1%} of {level['accesses']:,} accesses hit")

times = cv.convolve(trace.signature, rates, cv.load(base))
print(f"{times.machine}: {times.seconds:.3f} s in blocks, core time from counts")
