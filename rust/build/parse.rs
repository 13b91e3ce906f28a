// SPDX-License-Identifier: MIT
//! src/ops/*.rs -> kernels, or refusals with file and line.

use super::attributes;
use super::contract::MAX_RANK;
use super::model::{Generic, GenericKind, Kernel, Kind, Param, Refusal};
use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, FnArg, GenericArgument, GenericParam, Item, ItemFn, ItemMod, Pat, PathArguments, Stmt, Type,
};

type Parsed<T> = Result<T, Refusal>;

fn line(node: &impl Spanned) -> usize {
    node.span().start().line
}

/// `#[cutile::module]`, or `#[module]` where it was imported.
fn is_module(attr: &Attribute) -> bool {
    let mut names = attr.path().segments.iter().rev().map(|s| s.ident.to_string());
    names.next().as_deref() == Some("module") && matches!(names.next().as_deref(), None | Some("cutile"))
}

/// `#[tile::entry]`, and every other path to an `entry`: the front end goes by the last segment alone.
fn is_entry(attr: &Attribute) -> bool {
    attr.path().segments.last().is_some_and(|s| s.ident == "entry")
}

fn is_tile_entry(attr: &Attribute) -> bool {
    attr.path().segments.iter().map(|s| s.ident.to_string()).eq(["tile", "entry"])
}

fn has_cfg(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|a| a.path().is_ident("cfg") || a.path().is_ident("cfg_attr"))
}

fn syntax(label: &str, source: &str) -> Parsed<syn::File> {
    syn::parse_file(source).map_err(|e| {
        let text = match e.to_string().as_str() {
            "cannot parse string into token stream" => "an unclosed delimiter or an unknown token".to_string(),
            other => other.to_string(),
        };
        Refusal::new(format!("{label}:{}", e.span().start().line), format!("syntax error: {text}"))
    })
}

/// Module names in the hand-written src/ops/mod.rs. It stays hand-written because the module path and the
/// file path the compiler sees enter the bytecode: a generated `#[path]` would make both differ per checkout.
pub fn listed(source: &str) -> Parsed<Vec<String>> {
    let label = "src/ops/mod.rs";
    let file = syntax(label, source)?;
    let mut names = vec![];
    for item in file.items {
        let at = format!("{label}:{}", line(&item));
        match item {
            Item::Mod(m) if m.content.is_none() => {
                if m.attrs.iter().any(|a| !a.path().is_ident("doc")) {
                    return Err(Refusal::new(
                        at,
                        format!("`mod {}` takes no attributes: every op is always built", m.ident),
                    ));
                }
                names.push(m.ident.to_string());
            }
            _ => return Err(Refusal::new(at, "only `pub mod <op>;` lines belong here")),
        }
    }
    Ok(names)
}

/// The kernels of one op file; `op` is its stem.
pub fn file(op: &str, source: &str) -> Parsed<Vec<Kernel>> {
    let label = format!("src/ops/{op}.rs");
    let file = syntax(&label, source)?;
    if has_cfg(&file.attrs) {
        return Err(Refusal::new(format!("{label}:1"), "a file of kernels cannot be under #![cfg]"));
    }
    let mut kernels = vec![];
    for item in &file.items {
        match item {
            Item::Mod(m) if m.attrs.iter().any(is_module) => module(op, &label, m, &mut kernels)?,
            other => stray(&label, other)?,
        }
    }
    Ok(kernels)
}

/// An entry that is not directly in a `#[cutile::module]` would silently have no export.
fn stray(label: &str, item: &Item) -> Parsed<()> {
    match item {
        Item::Fn(f) if f.attrs.iter().any(is_entry) => Err(Refusal::new(
            format!("{label}:{}", line(&f.sig.ident)),
            format!("{}: an entry belongs directly in a #[cutile::module] at the top of the file", f.sig.ident),
        )),
        Item::Mod(m) => {
            let items = m.content.as_ref().map(|c| c.1.as_slice()).unwrap_or_default();
            for inner in items {
                if let Item::Mod(n) = inner
                    && n.attrs.iter().any(is_module)
                {
                    return Err(Refusal::new(
                        format!("{label}:{}", line(&n.ident)),
                        format!("{}: a #[cutile::module] belongs at the top of the file", n.ident),
                    ));
                }
                stray(label, inner)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn module(op: &str, label: &str, m: &ItemMod, kernels: &mut Vec<Kernel>) -> Parsed<()> {
    let at = format!("{label}:{}", line(&m.ident));
    if has_cfg(&m.attrs) {
        return Err(Refusal::new(
            at,
            format!("module {}: #[cfg] is not supported: build.rs and the compiler would disagree", m.ident),
        ));
    }
    if !matches!(m.vis, syn::Visibility::Public(_)) {
        return Err(Refusal::new(at, format!("module {}: must be `pub`, its exports refer to it", m.ident)));
    }
    let Some((_, items)) = &m.content else {
        return Err(Refusal::new(at, format!("module {}: needs its body in this file", m.ident)));
    };
    for item in items {
        match item {
            Item::Fn(f) if f.attrs.iter().any(is_entry) => {
                kernels.push(entry(op, label, &m.ident.to_string(), f)?);
            }
            Item::Mod(_) => stray(label, item)?,
            _ => {}
        }
    }
    Ok(())
}

fn entry(op: &str, label: &str, module: &str, f: &ItemFn) -> Parsed<Kernel> {
    let name = f.sig.ident.to_string();
    let refuse = |node_line: usize, text: &str| Refusal::new(format!("{label}:{node_line}"), format!("{name}: {text}"));
    let here = line(&f.sig.ident);
    if has_cfg(&f.attrs) {
        return Err(refuse(here, "#[cfg] on an entry is not supported: build.rs and the compiler would disagree"));
    }
    if !f.attrs.iter().filter(|a| is_entry(a)).all(is_tile_entry) {
        return Err(refuse(
            here,
            "write #[tile::entry(..)]: #[cutile::entry] also generates a host launcher, which nothing calls here",
        ));
    }
    if f.sig.unsafety.is_none() || !unchecked(&f.attrs) {
        return Err(refuse(
            here,
            "entries are `unsafe fn` under #[tile::entry(unchecked_accesses = true)]: without it checks run in the kernel or before each launch",
        ));
    }
    if !matches!(f.sig.output, syn::ReturnType::Default) {
        return Err(refuse(here, "an entry returns nothing"));
    }
    let mut generics = vec![];
    for g in &f.sig.generics.params {
        let (ident, kind) = match g {
            GenericParam::Type(t) => (&t.ident, GenericKind::Type),
            GenericParam::Const(c) => match path_name(&c.ty).as_deref() {
                Some("i32") => (&c.ident, GenericKind::Int),
                Some("bool") => (&c.ident, GenericKind::Bool),
                _ => {
                    return Err(refuse(
                        line(c),
                        &format!("const generic {}: only i32 and bool can be passed", c.ident),
                    ));
                }
            },
            GenericParam::Lifetime(l) => return Err(refuse(line(l), "lifetime parameters are not supported")),
        };
        generics.push(Generic { name: ident.to_string(), kind, argument: kind != GenericKind::Type });
    }
    let mut params = vec![];
    for arg in &f.sig.inputs {
        let at = line(arg);
        let FnArg::Typed(arg) = arg else { return Err(refuse(at, "`self` is not a kernel parameter")) };
        let Pat::Ident(pat) = &*arg.pat else { return Err(refuse(at, "parameters are plain names")) };
        if has_cfg(&arg.attrs) {
            return Err(refuse(at, &format!("parameter {}: #[cfg] is not supported", pat.ident)));
        }
        let kind = kind(&arg.ty).map_err(|text| refuse(at, &format!("parameter {}: {text}", pat.ident)))?;
        params.push(Param { name: pat.ident.to_string(), kind, holds: None });
    }
    let passes = attributes::apply(&f.attrs, &mut params).map_err(|(at, text)| refuse(at, &text))?;
    for g in &mut generics {
        if g.kind == GenericKind::Type {
            g.argument = !params.iter().any(|p| p.elem() == Some(&g.name));
        }
    }
    Ok(Kernel { name: name.clone(), op: op.into(), module: module.into(), line: here, params, generics, passes })
}

fn unchecked(attrs: &[Attribute]) -> bool {
    attrs.iter().filter(|a| is_entry(a)).any(|a| match &a.meta {
        syn::Meta::List(l) => {
            let text: String = l.tokens.to_string().split_whitespace().collect();
            text.split(',').any(|t| t == "unchecked_accesses=true")
        }
        _ => false,
    })
}

fn path_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(p) if p.qself.is_none() => {
            let last = p.path.segments.last()?;
            matches!(last.arguments, PathArguments::None).then(|| last.ident.to_string())
        }
        _ => None,
    }
}

fn kind(ty: &Type) -> Result<Kind, String> {
    match ty {
        Type::Reference(r) if r.mutability.is_some() => {
            Err("outputs are `&Tensor` or `*mut E`, never `&mut Tensor` (it locks the grid to the partition and adds parameters)".into())
        }
        Type::Reference(r) => tensor(&r.elem),
        Type::Ptr(p) if p.mutability.is_none() => Err("the front end takes `*mut E`, not `*const E`".into()),
        Type::Ptr(p) => match path_name(&p.elem) {
            Some(elem) => Ok(Kind::Pointer { elem }),
            None => Err("a pointer's element is a plain type name".into()),
        },
        other => match path_name(other) {
            Some(ty) => Ok(Kind::Scalar { ty }),
            None => Err("not a tensor, pointer or scalar".into()),
        },
    }
}

fn tensor(ty: &Type) -> Result<Kind, String> {
    let expected = || "a reference is `&Tensor<E, {[-1, ..]}>`".to_string();
    let Type::Path(p) = ty else { return Err(expected()) };
    let Some(last) = p.path.segments.last().filter(|s| s.ident == "Tensor") else { return Err(expected()) };
    let PathArguments::AngleBracketed(args) = &last.arguments else { return Err(expected()) };
    let (mut elem, mut dims) = (None, None);
    for arg in &args.args {
        match arg {
            GenericArgument::Type(t) => elem = path_name(t),
            GenericArgument::Const(e) => dims = array(e),
            _ => return Err(expected()),
        }
    }
    let (Some(elem), Some(dims)) = (elem, dims) else { return Err(expected()) };
    if dims.iter().any(|d| !minus_one(d)) {
        return Err("static extents in a Tensor type shift the specialization hints: write -1 for every axis and pass sizes as const generics".into());
    }
    if dims.is_empty() || dims.len() > MAX_RANK {
        return Err(format!("rank {} is outside 1..={MAX_RANK}", dims.len()));
    }
    Ok(Kind::Tensor { elem, rank: dims.len() })
}

fn array(e: &Expr) -> Option<Vec<Expr>> {
    match e {
        Expr::Array(a) => Some(a.elems.iter().cloned().collect()),
        Expr::Block(b) => match b.block.stmts.as_slice() {
            [Stmt::Expr(inner, None)] => array(inner),
            _ => None,
        },
        _ => None,
    }
}

fn minus_one(e: &Expr) -> bool {
    let Expr::Unary(u) = e else { return false };
    let Expr::Lit(l) = &*u.expr else { return false };
    matches!(u.op, syn::UnOp::Neg(_)) && matches!(&l.lit, syn::Lit::Int(i) if i.base10_digits() == "1")
}
