// SPDX-License-Identifier: MIT
//! `#[tile::flattened]`, `#[tile::holds]` and `#[tile::passes]` of an entry.

use super::contract::MAX_RANK;
use super::model::{Holds, Kind, Param, Pass};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Ident, LitInt, Token, bracketed, parenthesized};

/// Line and reason.
type Refused = (usize, String);

fn at(line: usize) -> impl Fn(String) -> Refused {
    move |text| (line, text)
}

/// Fold flattened tensors into one parameter, attach what holds of them, and return the passes.
pub fn apply(attrs: &[Attribute], params: &mut Vec<Param>) -> Result<Vec<Pass>, Refused> {
    let mut passes = vec![];
    for name in ["flattened", "holds", "passes"] {
        for attr in attrs.iter().filter(|a| is(a, name)) {
            let refuse = at(attr.span().start().line);
            let items = attr
                .parse_args_with(Punctuated::<Item, Token![,]>::parse_terminated)
                .map_err(|e| refuse(format!("#[tile::{name}]: {e}")))?;
            for item in items {
                match name {
                    "flattened" => flatten(&item, params).map_err(&refuse)?,
                    "holds" => hold(&item, params).map_err(&refuse)?,
                    _ => passes.push(pass(&item).map_err(&refuse)?),
                }
            }
        }
    }
    Ok(passes)
}

fn is(attr: &Attribute, name: &str) -> bool {
    attr.path().segments.iter().map(|s| s.ident.to_string()).eq(["tile", name])
}

/// `name`, `name = 2`, `name = [1, -1]` or `name(items)`.
struct Item {
    name: String,
    numbers: Vec<i64>,
    /// None: no value was given.
    list: Option<bool>,
    inner: Vec<Item>,
}

impl Parse for Item {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut item = Item { name: input.parse::<Ident>()?.to_string(), numbers: vec![], list: None, inner: vec![] };
        if input.peek(syn::token::Paren) {
            let content;
            parenthesized!(content in input);
            item.inner = Punctuated::<Item, Token![,]>::parse_terminated(&content)?.into_iter().collect();
        } else if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            item.list = Some(input.peek(syn::token::Bracket));
            if item.list == Some(true) {
                let content;
                bracketed!(content in input);
                let numbers = Punctuated::<Number, Token![,]>::parse_terminated(&content)?;
                item.numbers = numbers.into_iter().map(|n| n.0).collect();
            } else {
                item.numbers = vec![input.parse::<Number>()?.0];
            }
        }
        Ok(item)
    }
}

struct Number(i64);

impl Parse for Number {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let negative = input.parse::<Option<Token![-]>>()?.is_some();
        let number: i64 = input.parse::<LitInt>()?.base10_parse()?;
        Ok(Number(if negative { -number } else { number }))
    }
}

fn find(params: &[Param], name: &str) -> Result<usize, String> {
    params.iter().position(|p| p.name == name).ok_or_else(|| format!("there is no parameter {name}"))
}

fn flatten(item: &Item, params: &mut Vec<Param>) -> Result<(), String> {
    let [rank] = item.numbers[..] else { return Err(format!("flattened: write {} = RANK", item.name)) };
    let rank = usize::try_from(rank).ok().filter(|r| (1..=MAX_RANK).contains(r));
    let rank = rank.ok_or_else(|| format!("flattened: the rank of {} is outside 1..={MAX_RANK}", item.name))?;
    let first = find(params, &item.name)?;
    let Kind::Pointer { elem } = params[first].kind.clone() else {
        return Err(format!("flattened: {} is not a pointer", item.name));
    };
    let extents = (0..rank).map(|axis| format!("{}_n{axis}", item.name));
    let strides = (0..rank).map(|axis| format!("{}_s{axis}", item.name));
    for (offset, expected) in extents.chain(strides).enumerate() {
        let scalar = Kind::Scalar { ty: "i32".into() };
        if !params.get(first + 1 + offset).is_some_and(|p| p.name == expected && p.kind == scalar) {
            return Err(format!("flattened: `{expected}: i32` must be parameter {} behind {}", offset + 1, item.name));
        }
    }
    params.drain(first + 1..=first + 2 * rank);
    params[first].kind = Kind::Flattened { elem, rank };
    Ok(())
}

fn hold(item: &Item, params: &mut [Param]) -> Result<(), String> {
    let index = find(params, &item.name)?;
    let rank = match params[index].kind {
        Kind::Tensor { rank, .. } | Kind::Flattened { rank, .. } => rank,
        Kind::Pointer { .. } => 0,
        Kind::Scalar { .. } => return Err(format!("holds: {} is not a tensor", item.name)),
    };
    let mut holds = Holds::default();
    for fact in &item.inner {
        let wrong = || format!("holds: {} of {} does not fit rank {rank}", fact.name, item.name);
        let axes = || {
            let axis = |&n: &i64| usize::try_from(n).ok().filter(|&a| a < rank).ok_or_else(wrong);
            fact.numbers.iter().map(axis).collect::<Result<Vec<usize>, String>>()
        };
        match fact.name.as_str() {
            "extents" | "strides" if fact.list != Some(true) || fact.numbers.len() != rank => return Err(wrong()),
            "extents" => holds.extents = fact.numbers.clone(),
            "strides" => holds.strides = fact.numbers.clone(),
            "pointer_16" if fact.list.is_none() => holds.pointer_16 = true,
            "extents_16" => holds.extents_16 = axes()?,
            "strides_16" => holds.strides_16 = axes()?,
            other => return Err(format!("holds: {other} is not a fact this library checks")),
        }
    }
    params[index].holds = Some(holds);
    Ok(())
}

fn pass(item: &Item) -> Result<Pass, String> {
    match (item.name.as_str(), item.list) {
        ("drop_bounds", None) => Ok(Pass::DropBounds),
        ("unchanged_results", None) => Ok(Pass::UnchangedResults),
        ("constant_tiles", None) => Ok(Pass::ConstantTiles),
        ("fold_pads", None) => Ok(Pass::FoldPads),
        ("wrapping_truncations", None) => Ok(Pass::WrappingTruncations),
        ("constant_bits", None) => Ok(Pass::ConstantBits),
        ("scan_axes", Some(true)) => {
            let axes = item.numbers.iter().map(|&n| i32::try_from(n).map_err(|e| e.to_string()));
            Ok(Pass::ScanAxes(axes.collect::<Result<_, _>>()?))
        }
        (other, _) => Err(format!("passes: there is no pass {other} of that form")),
    }
}
