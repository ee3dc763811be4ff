"""P3S: predict a message-passing program on many processes from its phases on few (Panadero et al., TPDS 2018)."""
