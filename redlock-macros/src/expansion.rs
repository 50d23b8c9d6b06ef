//! What the attribute makes of a function, in `expansion/*.expanded.rs`.
//! `UPDATE_EXPANSIONS=1 cargo test -p redlock-macros expansions` writes these files anew.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use quote::ToTokens;
use syn2::{ItemFn, Meta};

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
    let mut function: ItemFn = syn2::parse_str(source).unwrap();
    let Meta::List(attribute) = function.attrs.remove(0).meta else {
        panic!("the attribute comes first, and has arguments")
    };
    let expanded = expand::redis_lock(attribute.tokens, function.to_token_stream());
    prettyplease::unparse(&syn2::parse2(expanded).unwrap())
}
