//! Rules about the source itself: who may import whom, what the protocol must not contain, and
//! how long a function may get.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// What each part of the crate may import of the others. `protocol` imports nothing: it must
/// run in a simulation as it runs in production.
const LAYERS: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("script", &["protocol"]),
    ("node", &["protocol", "script"]),
    ("engine", &["node", "protocol"]),
    ("config", &["node", "protocol"]),
    ("error", &["config", "protocol"]),
    ("fence", &[]),
    (
        "redlock",
        &["builder", "config", "engine", "install", "lock", "protocol"],
    ),
    (
        "builder",
        &["config", "engine", "install", "protocol", "redlock"],
    ),
    ("install", &["config", "redlock"]),
    (
        "section",
        &["config", "engine", "error", "guard", "protocol", "redlock"],
    ),
    ("key", &[]),
    ("guard", &["engine", "error", "section"]),
    ("lock", &["config", "error", "guard", "redlock", "section"]),
    (
        "macro_support",
        &[
            "config", "error", "guard", "install", "key", "protocol", "redlock", "section",
        ],
    ),
];

/// What the protocol must not contain, beside imports of this crate.
const BANNED_IN_PROTOCOL: &[&str] = &[
    "tokio",
    "redis::",
    "uuid",
    "async ",
    ".await;",
    ".await?",
    "std::thread",
    "std::net",
    "std::time::Instant",
    "SystemTime",
    "Mutex",
    "RwLock",
    "Atomic",
    "HashMap",
    "HashSet",
    "println!",
];

/// Lines from `fn` to its closing brace.
const LONGEST_FUNCTION: usize = 70;

#[test]
fn every_module_imports_only_what_its_layer_allows() {
    let mut violations = Vec::new();
    for (path, text) in sources() {
        let layer = layer_of(&path);
        if layer == "lib" {
            continue;
        }
        let (_, allowed) = LAYERS
            .iter()
            .find(|(name, _)| *name == layer)
            .unwrap_or_else(|| panic!("`{layer}` has no place in the table of layers"));
        for import in imports(&text) {
            if import != layer && !allowed.contains(&import.as_str()) {
                violations.push(format!("{}: crate::{import}", path.display()));
            }
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn the_protocol_contains_no_io_no_clock_and_no_locks() {
    let mut violations = Vec::new();
    for (path, text) in sources() {
        if layer_of(&path) != "protocol" {
            continue;
        }
        for (number, line) in code_lines(&text) {
            for banned in BANNED_IN_PROTOCOL {
                if line.contains(banned) {
                    violations.push(format!("{}:{number}: {banned}", path.display()));
                }
            }
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn functions_can_be_read_at_a_glance() {
    let mut violations = Vec::new();
    for (path, text) in sources() {
        let mut open: Option<(usize, usize)> = None;
        for (number, line) in text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let starts = line.trim_start();
            let is_fn = [
                "fn ",
                "pub fn ",
                "pub(crate) fn ",
                "pub(super) fn ",
                "async fn ",
                "pub async fn ",
                "pub(crate) async fn ",
                "const fn ",
                "pub const fn ",
            ]
            .iter()
            .any(|start| starts.starts_with(start));
            if is_fn && open.is_none() {
                open = Some((number, indent));
            }
            if let Some((start, depth)) = open
                && starts.starts_with('}')
                && indent == depth
            {
                if number - start + 1 > LONGEST_FUNCTION {
                    violations.push(format!("{}:{}", path.display(), start + 1));
                }
                open = None;
            }
        }
    }
    assert!(
        violations.is_empty(),
        "longer than {LONGEST_FUNCTION} lines: {violations:#?}"
    );
}

/// The checks themselves must be able to fail.
#[test]
fn imports_are_seen_however_they_are_written() {
    let text = "
        use crate::engine::Engine;
        use crate::{
            config::{Settings, Options},
            node::Target, // crate::comment
        };
        fn f() { crate::script::load_all() }
        pub(crate) fn g() {}
    ";
    let mut seen = imports(text);
    seen.sort();
    assert_eq!(seen, ["config", "engine", "node", "script"]);
}

fn sources() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = BTreeMap::new();
    collect(&root, &root, &mut sources);
    assert!(sources.len() > 20, "the sources were not found");
    sources
}

fn collect(root: &Path, folder: &Path, sources: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let relative = path.strip_prefix(root).unwrap().to_owned();
            sources.insert(relative, fs::read_to_string(&path).unwrap());
        }
    }
}

fn layer_of(path: &Path) -> String {
    let first = path.components().next().unwrap().as_os_str();
    first.to_string_lossy().trim_end_matches(".rs").to_owned()
}

fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
}

/// The modules of this crate that a text names: after `crate::`, or at the top level of the
/// braces after `crate::`.
fn imports(text: &str) -> Vec<String> {
    let code: String = code_lines(text)
        .map(|(_, line)| line)
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = code[at + "crate::".len()..].trim_start();
        if let Some(list) = rest.strip_prefix('{') {
            found.extend(top_level_names(list));
        } else {
            found.push(leading_name(rest));
        }
    }
    found.sort();
    found.dedup();
    found
}

fn top_level_names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut expects_name = true;
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expects_name = true,
            character if expects_name && !character.is_whitespace() => {
                names.push(leading_name(&list[at..]));
                expects_name = false;
            }
            _ => {}
        }
    }
    names
}

fn leading_name(text: &str) -> String {
    text.chars()
        .take_while(|character| character.is_alphanumeric() || *character == '_')
        .collect()
}
