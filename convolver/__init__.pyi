from convolver.analyzing.analyze import analyze as analyze
from convolver.analyzing.program_analysis import Analysis as Analysis
from convolver.artifacts import load as load
from convolver.convolution.convolve import convolve as convolve
from convolver.convolution.cpu_ratio import cpu_ratio as cpu_ratio
from convolver.errors import ConvolverError as ConvolverError
from convolver.machine.profile import MachineProfile as MachineProfile
from convolver.modeling.base import fit as fit
from convolver.mpi.network_replay import replay as replay
from convolver.pipeline import Prediction as Prediction
from convolver.pipeline import predict as predict
from convolver.probing.machine_probe import probe as probe
from convolver.signature.signature import Signature as Signature
from convolver.simulation.hit_rates import HitRates as HitRates
from convolver.simulation.one_pass import simulate as simulate
from convolver.simulation.one_pass import simulate_arrays as simulate_arrays
from convolver.tracing.marked import marked as marked
from convolver.tracing.sampling import SamplingPlan as SamplingPlan
from convolver.tracing.tracer import trace as trace

__version__: str
