# SPDX-License-Identifier: MIT
"""Rust identifiers: Python's names where they are free, numbered where they are not."""

from __future__ import annotations

import re

_KEYWORDS = """
abstract as async await become box break const continue crate do dyn else enum extern false final fn for if impl in let
loop macro match mod move mut override priv pub ref return self static struct super trait true try type typeof unsafe
unsized use virtual where while yield
"""
# What `use cutile::core::*` and the text itself bring into scope: a local of such a name would hide it.
_DSL = """
absf absi add addf addi addptr addptr_tile alloca andi assume_bounds assume_bounds_lower assume_bounds_raw
assume_bounds_upper assume_div_by assume_div_by_every_along assume_div_by_raw assume_same_elements_1d
assume_same_elements_2d assume_same_elements_3d assume_same_elements_4d assume_same_elements_raw atan2 atomic
atomic_cas_tko atomic_red_view_raw atomic_rmw_tko bf16 bitcast bool broadcast broadcast_ptr broadcast_scalar cast_const
cast_mut cast_tile_const cast_tile_mut cat ceil ceil_div cmp_ordering cmpf cmpi constant convert_scalar convert_tile
coord cos cosh cutile dim_map divf divi eq_tile exp exp2 exp_with_rounding exti extract f16 f32 f64 f8e4m3fn f8e5m2
fast_acc floor floor_div fma fpowf fpowi ftof ftoi ftoi_saturating ftz gdc_launch_dependents_tko gdc_wait_tko ge_tile
get_global get_index_space_shape get_num_tile_blocks get_partition_token get_shape_dim get_tensor_base get_tensor_shape
get_tensor_token get_tile_block_id gt_tile i16 i32 i64 i8 insert int_to_ptr iota itof join_tokens le_tile load_ptr_tko
load_tensor load_tile load_tile_like load_tile_mut load_view_raw load_view_tko log log2 lt_tile make_partition_view
make_partition_view_mut make_tensor_view max max_tile maxf maxi memory_fence_alias_tko min min_tile minf mini mma mmaf
mmaf_scaled mmaf_with_fast_acc mmai mulf mulhii muli nan ne_tile negf negi new_token_unordered noti num_programs
num_tiles ordering ori overflow pack padding permute permute_array pointer_to_tile pow predicate print_tko program_id
ptr_to_int ptr_to_ptr ptr_with_attr_none reduce reduce_max reduce_min reduce_prod reduce_sum remf remi reshape
reshape_ptr reverse rounding rsqrt saturating scalar_to_tile scan scan_sum scope select set_tensor_token shape shli shri
signedness sin sinh sqrt store_ptr_tko store_tile store_view_raw store_view_tko_mut subf subi sum tan tanh
tanh_with_rounding tf32 tile tile_to_pointer tile_to_scalar tma tok true_div trunci u16 u32 u64 u8 unpack xori
"""
# Arguments of the C function that build.rs generates, and words that C's header cannot have as parameter names.
_EXPORT = """
grid_x grid_y grid_z num_cta_in_cga occupancy num_worker_warps device_id raw_stream alignas alignof and asm auto case
catch char class complex constexpr default delete double explicit export float friend goto inline int int32_t int64_t
long namespace new not nullptr operator or private protected public register restrict short signed sizeof switch
template this throw typedef typeid typename uint32_t uint64_t uint8_t union unsigned using void volatile xor
"""
RESERVED = frozenset(f"{_KEYWORDS} {_DSL} {_EXPORT}".split())


def identifier(text: str, default: str = "t") -> str:
    """An identifier close to ``text``: lower case where Python's name looks like a Rust constant."""
    name = re.sub(r"[^0-9A-Za-z_]", "_", text).strip("_") or default
    if name[0].isdigit():
        name = f"{default}{name}"
    return name.lower() if name.upper() == name else name


class Names:
    """The identifiers of one Rust function."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._used = set(RESERVED) | taken

    def fresh(self, wanted: str) -> str:
        """``wanted``, or it with the lowest free number."""
        base = identifier(wanted)
        name, number = base, 2
        while name in self._used:
            name, number = f"{base}_{number}", number + 1
        self._used.add(name)
        return name

    def take(self, name: str) -> None:
        """Make ``name`` unavailable."""
        self._used.add(name)
