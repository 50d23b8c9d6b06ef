//! What the attribute makes of a function, in `expansion/*.expanded.rs`.
//! `UPDATE_EXPANSIONS=1 cargo test -p redlock-macros expansions` writes these files anew.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use quote::ToTokens;
use syn2::{Attribute, ImplItem, ImplItemFn, Item, ItemFn, Meta};

use crate::expand;

#[test]
fn expansions() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("expansion");
    let files = fs::read_dir(&directory).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let is_input = |path: &PathBuf| !path.to_str().unwrap().ends_with(".expanded.rs");
    let mut inputs: Vec<PathBuf> = files.filter(is_input).collect();
    inputs.sort();
    assert!(!inputs.is_empty());
    for input in inputs {
        let expanded = expanded(&fs::read_to_string(&input).unwrap());
        let output = input.with_extension("expanded.rs");
        if env::var_os("UPDATE_EXPANSIONS").is_some() {
            fs::write(&output, &expanded).unwrap();
        }
        let expected = fs::read_to_string(&output).unwrap_or_default();
        assert!(
            expanded == expected,
            "{} is now:\n{expanded}",
            output.display()
        );
    }
}

fn expanded(source: &str) -> String {
    let mut file = syn2::parse_file(source).unwrap();
    for item in &mut file.items {
        match item {
            Item::Fn(function) => expand_function(function),
            Item::Impl(item) => item.items.iter_mut().for_each(expand_method),
            _ => {}
        }
    }
    prettyplease::unparse(&file)
}

fn expand_function(function: &mut ItemFn) {
    if let Some(args) = take_args(&mut function.attrs) {
        let expanded = expand::redis_lock(args, function.to_token_stream());
        *function = syn2::parse2(expanded).unwrap();
    }
}

fn expand_method(item: &mut ImplItem) {
    let ImplItem::Fn(method) = item else { return };
    if let Some(args) = take_args(&mut method.attrs) {
        let expanded = expand::redis_lock(args, method.to_token_stream());
        *method = syn2::parse2::<ImplItemFn>(expanded).unwrap();
    }
}

fn take_args(attributes: &mut Vec<Attribute>) -> Option<proc_macro2::TokenStream> {
    let is_ours = |attribute: &Attribute| attribute.path().is_ident("redis_lock");
    let position = attributes.iter().position(is_ours)?;
    match attributes.remove(position).meta {
        Meta::List(list) => Some(list.tokens),
        Meta::Path(_) | Meta::NameValue(_) => None,
    }
}
