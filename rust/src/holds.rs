// SPDX-License-Identifier: MIT
//! A kernel may be written for some tensors only; any other launch is refused here, before it is specialized.

use crate::contract::MAX_RANK;
use crate::kernel::{Holds, Kernel, Param};
use crate::specialize::TensorBits;
use crate::status::{Error, Result};
use crate::tensor_desc::TensorDesc;

/// `bits` are the descriptor's.
pub fn check(kernel: &Kernel, param: &Param, holds: &Holds, desc: &TensorDesc, bits: &TensorBits) -> Result<()> {
    let refuse = |what: String| {
        Err(Error::invalid(format!(
            "{}: {}: {what}; this entry is compiled for tensors of another class: translate the launch again",
            kernel.name, param.name
        )))
    };
    if holds.pointer_16 && !bits.pointer_16 {
        return refuse("the address is not a multiple of 16 bytes".into());
    }
    for axis in 0..MAX_RANK {
        let (extent, stride) = (desc.shape[axis], desc.strides[axis]);
        if holds.extents[axis] >= 0 && holds.extents[axis] != extent {
            return refuse(format!("extent {extent} of axis {axis} is not {}", holds.extents[axis]));
        }
        if holds.strides[axis] >= 0 && holds.strides[axis] != stride {
            return refuse(format!("stride {stride} of axis {axis} is not {}", holds.strides[axis]));
        }
        if holds.extents_16 >> axis & 1 == 1 && !bits.extents_16[axis] {
            return refuse(format!("extent {extent} of axis {axis} is not a multiple of 16"));
        }
        if holds.strides_16 >> axis & 1 == 1 && !bits.strides_16[axis] {
            return refuse(format!("stride {stride} of axis {axis} is not a multiple of 16 bytes"));
        }
    }
    Ok(())
}
