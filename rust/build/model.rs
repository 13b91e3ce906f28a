// SPDX-License-Identifier: MIT
//! What build.rs knows of a kernel: its own Rust signature, nothing else.

/// Why a source was refused; printed as `cargo::error=<at>: <text>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `src/ops/<op>.rs:<line>`.
    pub at: String,
    pub text: String,
}

impl Refusal {
    pub fn new(at: impl Into<String>, text: impl Into<String>) -> Self {
        Refusal { at: at.into(), text: text.into() }
    }
}

/// Scalar parameter types: Rust, C, and how a value becomes the low bytes of a u64.
pub const SCALARS: [(&str, &str, &str); 7] = [
    ("i32", "int32_t", "as u32 as u64"),
    ("u32", "uint32_t", "as u64"),
    ("i64", "int64_t", "as u64"),
    ("u64", "uint64_t", ""),
    ("f32", "float", ".to_bits() as u64"),
    ("f64", "double", ".to_bits()"),
    ("bool", "uint8_t", "as u64"),
];

/// Arguments that every typed export ends with.
pub const TAIL: [(&str, &str, &str); 8] = [
    ("grid_x", "int32_t", "i32"),
    ("grid_y", "int32_t", "i32"),
    ("grid_z", "int32_t", "i32"),
    ("num_cta_in_cga", "int32_t", "i32"),
    ("occupancy", "int32_t", "i32"),
    ("num_worker_warps", "int32_t", "i32"),
    ("device_id", "int32_t", "i32"),
    ("raw_stream", "uint64_t", "u64"),
];

/// The library's own functions: a part of the header, and names that no kernel can have.
pub const FIXED: &str = include_str!("fixed.h");

/// `Flattened` is a tensor written as its address, extents and strides: as many Rust parameters, one descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Tensor { elem: String, rank: usize },
    Flattened { elem: String, rank: usize },
    Pointer { elem: String },
    Scalar { ty: String },
}

/// What an entry's text takes for granted of a tensor; -1 = any value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holds {
    pub extents: Vec<i64>,
    pub strides: Vec<i64>,
    pub pointer_16: bool,
    pub extents_16: Vec<usize>,
    pub strides_16: Vec<usize>,
}

/// Passes over an entry's Tile IR, by the names in src/passes.rs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pass {
    DropBounds,
    UnchangedResults,
    ConstantTiles,
    FoldPads,
    WrappingTruncations,
    ConstantBits,
    ScanAxes(Vec<i32>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    pub name: String,
    pub kind: Kind,
    pub holds: Option<Holds>,
}

impl Param {
    pub fn elem(&self) -> Option<&str> {
        match &self.kind {
            Kind::Tensor { elem, .. } | Kind::Flattened { elem, .. } | Kind::Pointer { elem } => Some(elem),
            Kind::Scalar { .. } => None,
        }
    }

    /// Launch parameters this one flattens to.
    pub fn slots(&self) -> usize {
        match self.kind {
            Kind::Tensor { rank, .. } | Kind::Flattened { rank, .. } => 1 + 2 * rank,
            Kind::Pointer { .. } | Kind::Scalar { .. } => 1,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenericKind {
    Type,
    Int,
    Bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generic {
    pub name: String,
    pub kind: GenericKind,
    /// A constant argument of the export; false for a type that a tensor's dtype binds.
    pub argument: bool,
}

impl Generic {
    /// The C name of the constant argument.
    pub fn argument_name(&self) -> String {
        match self.kind {
            GenericKind::Type => format!("{}_dtype", self.name),
            GenericKind::Int | GenericKind::Bool => self.name.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    pub name: String,
    /// File stem in src/ops.
    pub op: String,
    /// The `#[cutile::module]` inside the file.
    pub module: String,
    pub line: usize,
    pub params: Vec<Param>,
    pub generics: Vec<Generic>,
    pub passes: Vec<Pass>,
}

impl Kernel {
    pub fn source(&self) -> String {
        format!("src/ops/{}.rs:{}", self.op, self.line)
    }

    pub fn refusal(&self, text: impl AsRef<str>) -> Refusal {
        Refusal::new(self.source(), format!("{}: {}", self.name, text.as_ref()))
    }

    /// Position of a type generic among the type generics.
    pub fn type_index(&self, name: &str) -> Option<usize> {
        self.generics.iter().filter(|g| g.kind == GenericKind::Type).position(|g| g.name == name)
    }

    pub fn constants(&self) -> impl Iterator<Item = &Generic> {
        self.generics.iter().filter(|g| g.argument)
    }

    pub fn tensors(&self) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(|p| p.elem().is_some())
    }

    pub fn slots(&self) -> usize {
        self.params.iter().map(Param::slots).sum()
    }
}
