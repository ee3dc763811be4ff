"""``convolver instrument``: translate CALL's pragmas and build the runtime that the result needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import Force, new_file, say, wrote
from convolver.errors import FormatError
from convolver.outputs import save_text


def verb(
    source: Annotated[Path, typer.Argument(help="C source with '#pragma cll' lines.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Translated source; default NAME.call.c.")] = None,
    runtime: Annotated[Path, typer.Option(help="Folder for header and library.")] = Path("convolver-call"),
    compiler: Annotated[str, typer.Option("--cc", help="Compiler of the runtime: cc, mpicc, smpicc.")] = "cc",
    mpi: Annotated[
        bool, typer.Option("--with-mpi", help="Add the MPI and network drivers; --cc must be an MPI wrapper.")
    ] = False,
    fortran: Annotated[str | None, typer.Option("--fc", help="Fortran compiler, to build the module too.")] = None,
    force: Force = False,
) -> None:
    """Translate CALL's pragmas of a C source into calls and build the runtime library beside it.

    Compile the result with -ICONVOLVER-CALL and link libconvolver_call.a; run it with CONVOLVER_CALL_DIR set, then
    'convolver model collect'.

    \b
    Examples:
      convolver instrument product.c
      convolver instrument product.c --cc mpicc --with-mpi -o product_call.c
    """
    from convolver.modeling.call.pragmas import build_runtime, instrument

    target = new_file(output or source.with_suffix(".call.c"), force)
    try:
        text = source.read_text()
    except OSError as error:
        raise FormatError(f"{source} cannot be read: {error.strerror}; give a C source.") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{source} is no text in UTF-8; give a C source.") from error
    translated = instrument(text, source.name)
    library = build_runtime(runtime, compiler=compiler, mpi=mpi, fortran=fortran)
    save_text(target, translated)
    wrote(target)
    say(f"Compile it with: {compiler} -I{runtime} {target} {library}")
