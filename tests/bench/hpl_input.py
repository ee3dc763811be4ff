"""The input of HPL and of hpcc, which reads HPL's and adds what PTRANS shall do."""

from __future__ import annotations

HPL = """HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{n}          Ns
1            # of NBs
{nb}         NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{p}          Ps
{q}          Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
{depth}            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
"""
PTRANS = """##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""


def hpl_text(n: int, *, nb: int = 64, p: int = 1, q: int = 1, depth: int = 1, ptrans: bool = False) -> str:
    """Return the input of one run: a system of order ``n`` in blocks of ``nb`` on ``p`` x ``q`` ranks.

    ``ptrans``: with the tail that hpcc reads, which asks for no further sizes of PTRANS.
    """
    return HPL.format(n=n, nb=nb, p=p, q=q, depth=depth) + (PTRANS if ptrans else "")
