//! What clippy says of an annotated function it also says of the plain one: the attribute adds no
//! warning, not even one of the groups `pedantic`, `nursery` and `restriction`.
//!
//! Two packages in `lints` have the same source, one with the real attribute and one with an
//! attribute of that name that does nothing. Clippy looks at both in one run.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::Value;

const ANNOTATED: &str = "redlock-lints-annotated";
const PLAIN: &str = "redlock-lints-plain";

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
    let messages = clippy();
    let [annotated, plain] =
        [ANNOTATED, PLAIN].map(|package| warnings(&messages, &package.replace('-', "_")));
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

fn warnings(messages: &[Value], krate: &str) -> BTreeSet<Warning> {
    let of_crate = messages.iter().filter(|message| {
        message["reason"] == "compiler-message" && message["target"]["name"] == krate
    });
    let warnings = of_crate.map(|message| &message["message"]);
    warnings.flat_map(places).collect()
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

/// Cargo's messages, of both packages and of what they depend on.
fn clippy() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    let installed = cargo.args(["clippy", "--version"]).output().unwrap();
    assert!(
        installed.status.success(),
        "this test needs clippy; `rustup component add clippy` installs it:\n{}",
        String::from_utf8_lossy(&installed.stderr)
    );
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "clippy",
            "--quiet",
            "--offline",
            "--no-deps",
            "--message-format=json",
        ])
        .args(["--package", ANNOTATED, "--package", PLAIN])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        // Its own, where other runs of clippy with other lints do not undo what is done.
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("lints"),
        )
        .env_remove("RUSTFLAGS")
        .arg("--")
        .args(LINTS.map(|lint| format!("--warn={lint}")));
    let output = cargo.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let messages: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        messages
            .iter()
            .filter(|message| message["message"]["level"] == "error")
            .filter_map(|message| message["message"]["rendered"].as_str())
            .collect::<String>()
    );
    messages
}
