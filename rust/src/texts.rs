// SPDX-License-Identifier: MIT
//! What the library says of itself: build id, description and header, written by build.rs.

include!(concat!(env!("OUT_DIR"), "/texts.rs"));
