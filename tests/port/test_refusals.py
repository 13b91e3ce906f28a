# SPDX-License-Identifier: MIT
"""What the translator does not know is refused with the right line, never translated to something else."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

import refused_kernels as kernels
from port_launches import launch
from port_launches import meta

from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.port.translate import Refused
from tilegym_rs_backend.port.translate import translate
from tilegym_rs_backend.port.translate.registry import EMITTERS


@pytest.mark.parametrize("name", list(kernels.launches()))
def test_the_line_of_the_construct_is_named(name):
    with pytest.raises(Refused) as caught:
        translate(kernels.refused_launch(name))
    error = caught.value
    assert isinstance(error, TilegymRsError)
    assert error.kernel == name
    assert (error.construct, error.reason) == kernels.REASONS[name]
    assert error.file == kernels.__file__
    with open(kernels.__file__) as file:
        line = file.read().splitlines()[error.line - 1]
    assert line.endswith("REFUSED"), f"{error}\n{line}"
    assert str(error).startswith(f"{error.file}:{error.line}: {error.construct} in kernel {name} cannot be translated")


def test_ten_kernels_and_more_are_refused_for_reasons_of_their_own():
    assert kernels.REASONS.keys() == kernels.launches().keys()
    assert len(set(kernels.REASONS.values())) == len(kernels.REASONS) >= 10


def test_an_attribute_the_emitter_was_not_written_for_is_refused(monkeypatch):
    def surprised(emitter, operation):
        raise KeyError("NEW_MODE")

    found = EMITTERS["TileBid"]
    monkeypatch.setitem(EMITTERS, "TileBid", type(found)("TileBid", found.python, found.rust, surprised))
    from port_kernels import scale_rows

    with pytest.raises(Refused, match=r"port_kernels\.py:\d+: tile_bid .*NEW_MODE"):
        translate(launch(scale_rows, meta(64, 64), meta(64, 64), 1.0, 16, 64))


def test_a_tensor_without_a_dtype_code_is_refused():
    import torch
    from port_kernels import batched_outer

    if not hasattr(torch, "uint32"):
        pytest.skip("this torch has no uint32")
    tensors = [meta(*shape, dtype=torch.uint32) for shape in ((4, 16, 32), (4, 16), (4, 32))]
    found = launch(batched_outer, *tensors, 16, 32)
    with pytest.raises(Refused, match="out: tensors of u32 have no code"):
        translate(found)


def test_a_tuple_of_tensors_is_refused_at_the_kernel():
    with pytest.raises(Refused, match="pair is a tuple") as caught:
        translate(launch(kernels.takes_pair, (meta(64), meta(64)), 64))
    assert caught.value.line == kernels.takes_pair._annotated_function.pyfunc.__code__.co_firstlineno
