//! What clippy says of an annotated function it also says of the plain one: the attribute adds no
//! warning, not even one of the groups `pedantic`, `nursery` and `restriction`.
//!
//! Clippy looks at the functions in `lints/shapes.rs` twice, with the real attribute and with the one
//! of that name in `lints/no_op.rs`, which does nothing.

mod compiler;

use std::{
    collections::BTreeSet,
    env::consts::{DLL_PREFIX, DLL_SUFFIX},
    path::{Path, PathBuf},
    process::Command,
};

use compiler::{compiler, library, rustc};
use serde_json::Value;

/// Groups of clippy and of rustc, and those lints of rustc that no group has and that could look at
/// an expansion.
const LINTS: [&str; 27] = [
    "clippy::all",
    "clippy::nursery",
    "clippy::pedantic",
    "clippy::restriction",
    "future_incompatible",
    "rust_2018_idioms",
    "unused",
    "elided_lifetimes_in_paths",
    "explicit_outlives_requirements",
    "if_let_rescope",
    "impl_trait_redundant_captures",
    "let_underscore_drop",
    "missing_docs",
    "redundant_imports",
    "redundant_lifetimes",
    "single_use_lifetimes",
    "tail_expr_drop_order",
    "trivial_casts",
    "trivial_numeric_casts",
    "unit_bindings",
    "unnameable_types",
    "unreachable_pub",
    "unsafe_op_in_unsafe_fn",
    "unused_lifetimes",
    "unused_qualifications",
    "unused_results",
    "variant_size_differences",
];

#[test]
fn the_attribute_adds_no_warning() {
    let directory = tempfile::tempdir().unwrap();
    let no_op = build_no_op(directory.path());
    // The runtime hands on the real attribute.
    let [annotated, plain] = [library("redlock_runtime"), no_op].map(|attribute| {
        let messages = clippy(directory.path(), attribute);
        messages.iter().flat_map(places).collect::<BTreeSet<_>>()
    });
    // One of each group, so that the comparison is about something.
    for lint in [
        "clippy::implicit_return",
        "clippy::missing_errors_doc",
        "clippy::future_not_send",
        "missing_docs",
    ] {
        let drawn = plain.iter().any(|warning| warning.lint == lint);
        assert!(
            drawn,
            "the plain functions draw no `{lint}`: was it asked for?"
        );
    }
    let added: Vec<_> = annotated.difference(&plain).collect();
    assert!(added.is_empty(), "only with the attribute: {added:#?}");
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Warning {
    line: u64,
    lint: String,
    message: String,
}

/// One for every place that is pointed at. What has no place is about the command line.
fn places(message: &Value) -> impl Iterator<Item = Warning> {
    let spans = message["spans"].as_array().into_iter().flatten();
    let primary = spans.filter(|span| span["is_primary"] == true);
    primary.map(|span| Warning {
        line: span["line_start"].as_u64().unwrap(),
        lint: message["code"]["code"]
            .as_str()
            .unwrap_or("none")
            .to_owned(),
        message: message["message"].as_str().unwrap().to_owned(),
    })
}

fn build_no_op(directory: &Path) -> PathBuf {
    let mut rustc = compiler(rustc(), directory, &[]);
    rustc.args(["--crate-type=proc-macro", "--extern=proc_macro"]);
    let output = rustc.arg(sources().join("no_op.rs")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    directory.join(format!("{DLL_PREFIX}no_op{DLL_SUFFIX}"))
}

/// What clippy says of the functions with `attribute`.
fn clippy(directory: &Path, attribute: PathBuf) -> Vec<Value> {
    let installed = Command::new("clippy-driver").arg("--version").output();
    assert!(
        installed.is_ok_and(|output| output.status.success()),
        "this test needs clippy; `rustup component add clippy` installs it"
    );
    let crates = [
        ("attribute", attribute),
        ("redlock_runtime", library("redlock_runtime")),
    ];
    let mut clippy = compiler("clippy-driver", directory, &crates);
    clippy
        .args(["--crate-type=lib", "--emit=metadata"])
        .args(LINTS.map(|lint| format!("--warn={lint}")));
    let output = clippy.arg(sources().join("shapes.rs")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let messages = stderr.lines().map(serde_json::from_str);
    messages.map(Result::unwrap).collect()
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lints")
}
