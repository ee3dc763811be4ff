"""MPI events, trace formats, network models and the communication replay."""
