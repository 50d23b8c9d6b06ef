//! Rules about the source itself: who may import whom, what the protocol must not contain, and
//! how long a function may get. For this crate and for the protocol, which lies in its folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What each part of this crate may import of the others.
const LAYERS: Layers = &[
    ("clock", &[]),
    ("script", &[]),
    ("node", &["limitation", "clock", "script"]),
    ("limitation", &[]),
    ("health", &["limitation"]),
    ("keys", &[]),
    ("status", &["keys"]),
    ("observe", &["config", "error", "health", "key", "status"]),
    ("engine", &["clock", "node", "observe", "status"]),
    (
        "inspect",
        &["config", "health", "key", "node", "script", "status"],
    ),
    (
        "tool",
        &[
            "builder", "config", "health", "inspect", "keys", "lock", "node", "redlock", "script",
        ],
    ),
    ("config", &["health", "key", "limitation", "node", "script"]),
    ("error", &["config", "health", "key"]),
    ("fence", &[]),
    ("guide", &[]),
    ("key", &[]),
    ("node_set", &["config", "engine", "observe"]),
    (
        "asked",
        &["engine", "error", "node_set", "observe", "status"],
    ),
    ("nesting", &["asked", "keys", "node_set"]),
    ("blocking", &["config", "engine"]),
    (
        "lease",
        &[
            "asked", "config", "error", "nesting", "observe", "script", "status",
        ],
    ),
    (
        "section",
        &[
            "asked", "blocking", "config", "engine", "error", "inspect", "keys", "lease",
            "nesting", "node_set", "observe", "script", "status",
        ],
    ),
    (
        "leader",
        &["clock", "config", "lease", "node", "node_set", "script"],
    ),
    ("guard", &["error", "lease", "section"]),
    (
        "lock",
        &[
            "config", "error", "guard", "keys", "leader", "lease", "node_set", "section",
        ],
    ),
    (
        "redlock",
        &[
            "config", "error", "health", "inspect", "keys", "lease", "lock", "nesting", "node_set",
        ],
    ),
    (
        "election",
        &["error", "guard", "leader", "lease", "lock", "redlock"],
    ),
    ("scope", &["redlock"]),
    ("install", &["config", "redlock", "scope"]),
    ("answer", &["error", "lock"]),
    (
        "builder",
        &[
            "blocking", "clock", "config", "engine", "health", "install", "node", "node_set",
            "observe", "redlock", "status",
        ],
    ),
    ("redlock_config", &["builder", "config", "node", "redlock"]),
    (
        "testing",
        &["builder", "config", "node", "observe", "redlock", "scope"],
    ),
    (
        "macro_support",
        &[
            "config", "election", "error", "key", "keys", "lease", "redlock", "section",
        ],
    ),
];

/// The same for the protocol: `protocol` joins its parts, and `key` asks `node`, not the other way round.
/// Values and rules need each other, one file the other but none itself.
const LAYERS_OF_PROTOCOL: Layers = &[
    ("time", &[]),
    ("unreachable", &[]),
    ("rules", &["action", "message", "time"]),
    ("message", &["rules"]),
    ("action", &["message", "rules", "time", "unreachable"]),
    ("event", &["message", "rules", "unreachable"]),
    ("settings", &[]),
    ("purpose", &["message"]),
    ("timer", &["purpose", "message", "time"]),
    ("model", &["message", "rules", "time"]),
    (
        "node",
        &[
            "action",
            "purpose",
            "message",
            "rules",
            "settings",
            "time",
            "unreachable",
        ],
    ),
    (
        "key",
        &[
            "action", "purpose", "message", "node", "rules", "settings", "time",
        ],
    ),
    ("compound", &["action", "message", "rules", "time"]),
    (
        "protocol",
        &[
            "action", "purpose", "compound", "event", "key", "message", "node", "rules",
            "settings", "time", "timer",
        ],
    ),
];

type Layers = &'static [(&'static str, &'static [&'static str])];

const CRATES: [(&str, Layers); 2] = [("src", LAYERS), (PROTOCOL, LAYERS_OF_PROTOCOL)];

const PROTOCOL: &str = "protocol/src";

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
    for (root, layers) in CRATES {
        for (path, text) in sources(root) {
            let layer = layer_of(&path);
            if layer == "lib" {
                continue;
            }
            let (_, allowed) = layers
                .iter()
                .find(|(name, _)| *name == layer)
                .unwrap_or_else(|| panic!("`{layer}` has no place in the table of layers"));
            for import in imports(&text) {
                if import != layer && !allowed.contains(&import.as_str()) {
                    violations.push(format!("{root}/{}: crate::{import}", path.display()));
                }
            }
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

/// Who reads a file needs to have read only those below it. The files of `model`, `node` and `protocol` are
/// chapters on one type each, and count as one.
#[test]
fn no_file_needs_itself_by_way_of_others() {
    for (root, _) in CRATES {
        let mut sources = sources(root);
        if root == PROTOCOL {
            sources = bound(sources, &["model", "node", "protocol"]);
            // Its files have chapters on `Key`, of which each may say so.
            for (path, text) in &mut sources {
                if path.starts_with("key") && !path.ends_with("mod.rs") {
                    *text = code(text).replace("Front, Key,", "").replace("Key, ", "");
                }
            }
        }
        let needs = needs(&sources);
        assert!(circle(&needs).is_empty(), "{root}: {:#?}", circle(&needs));
    }
}

#[test]
fn the_protocol_contains_no_io_no_clock_and_no_locks() {
    let mut violations = Vec::new();
    for (path, text) in sources(PROTOCOL) {
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
    let sources = CRATES.iter().flat_map(|(root, _)| sources(root));
    for (path, text) in sources {
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
        use super::{self as parent, deep::{self, nested::Thing}};
        fn f() { crate::script::load_all() }
        pub(crate) fn g() {}
        #[cfg(test)]
        mod tests {
            use crate::only_in_tests;
        }
    ";
    assert_eq!(
        paths(text),
        [
            "crate::config::Options",
            "crate::config::Settings",
            "crate::engine::Engine",
            "crate::node::Target",
            "crate::script::load_all",
            "super::deep::nested::Thing",
            "super::deep::self",
            "super::self",
        ]
    );
    assert_eq!(imports(text), ["config", "engine", "node", "script"]);
}

#[test]
fn circles_are_seen_however_long() {
    let files = |second: &str| {
        BTreeMap::from([
            ("lib.rs".into(), "mod engine; mod node;".to_owned()),
            (
                "engine/mod.rs".into(),
                "mod driver; use crate::node::Node;".to_owned(),
            ),
            ("engine/driver.rs".into(), second.to_owned()),
            (
                "node.rs".into(),
                "use crate::{engine::driver::Driver};".to_owned(),
            ),
        ])
    };
    let straight = files("use std::fmt;");
    assert!(circle(&needs(&straight)).is_empty());
    for back in [
        "use super::Engine;",
        "use crate::node;",
        "fn f() { super::super::node::g() }",
    ] {
        assert!(!circle(&needs(&files(back))).is_empty(), "{back}");
    }
}

/// Of one crate, but for its own tests.
fn sources(root: &str) -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let mut sources = BTreeMap::new();
    collect(&root, &root, &mut sources);
    let tests: Vec<Vec<String>> = sources
        .iter()
        .flat_map(|(path, text)| {
            let children = test_modules(text).map(|name| {
                let mut child = module_of(path);
                child.push(name);
                child
            });
            children.collect::<Vec<_>>()
        })
        .collect();
    sources.retain(|path, _| {
        let module = module_of(path);
        !tests.iter().any(|test| module.starts_with(test))
    });
    assert!(sources.len() > 10, "the sources were not found");
    sources
}

/// The modules of tests that a text declares as files.
fn test_modules(text: &str) -> impl Iterator<Item = String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = |pair: &[&str]| {
        let name = pair[1].strip_prefix("mod ")?.strip_suffix(';')?;
        let is_for_tests = pair[0].contains("test") && !pair[0].contains("feature");
        (pair[0].starts_with("#[cfg(") && is_for_tests).then(|| name.to_owned())
    };
    let names: Vec<String> = lines.windows(2).filter_map(declared).collect();
    names.into_iter()
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

/// The modules of this crate that a text names after `crate::`.
fn imports(text: &str) -> Vec<String> {
    let paths = paths(text);
    let mut modules: Vec<String> = paths
        .iter()
        .filter_map(|path| path.strip_prefix("crate::"))
        .map(leading_name)
        .collect();
    modules.dedup();
    modules
}

/// Makes one file of all that are in a folder.
fn bound(sources: BTreeMap<PathBuf, String>, folders: &[&str]) -> BTreeMap<PathBuf, String> {
    let mut bound: BTreeMap<PathBuf, String> = BTreeMap::new();
    for (path, text) in sources {
        match folders.iter().find(|folder| path.starts_with(folder)) {
            Some(folder) => {
                // Where `super` is in one of them is no matter: it is the whole.
                let text = code(&text).replace("super::", "");
                let whole = bound.entry(Path::new(folder).join("mod.rs")).or_default();
                whole.push_str(&text);
            }
            None => drop(bound.insert(path, text)),
        }
    }
    bound
}

/// Which files each file needs: those that it names, and those of the modules that it declares.
fn needs(sources: &BTreeMap<PathBuf, String>) -> BTreeMap<&Path, BTreeSet<&Path>> {
    let modules: BTreeMap<Vec<String>, &Path> = sources
        .keys()
        .map(|path| (module_of(path), path.as_path()))
        .collect();
    let mut needs = BTreeMap::new();
    for (path, text) in sources {
        let here = module_of(path);
        let mut needed = BTreeSet::new();
        for named in paths(text) {
            let named = absolute(&here, &named);
            // The longest beginning that is a file; the rest is what that file has inside.
            let file = (0..=named.len())
                .rev()
                .find_map(|n| modules.get(&named[..n]));
            needed.extend(file.copied());
        }
        for child in children(text) {
            let child: Vec<String> = here.iter().cloned().chain([child]).collect();
            needed.extend(modules.get(&child).copied());
        }
        needed.remove(path.as_path());
        needs.insert(path.as_path(), needed);
    }
    needs
}

/// The files that need themselves, and those by way of which they do.
fn circle<'a>(needs: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> BTreeMap<&'a Path, Vec<&'a Path>> {
    let mut circle: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    for (&path, needed) in needs {
        let way = needed.iter().copied();
        let way: Vec<&Path> = way.filter(|&first| leads_to(needs, first, path)).collect();
        if !way.is_empty() {
            circle.insert(path, way);
        }
    }
    circle
}

fn leads_to(needs: &BTreeMap<&Path, BTreeSet<&Path>>, from: &Path, to: &Path) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(path) = open.pop() {
        if path == to {
            return true;
        }
        let needed = needs.get(path).into_iter().flatten();
        open.extend(needed.filter(|path| seen.insert(path)));
    }
    false
}

/// `engine/driver.rs` is `["engine", "driver"]`, `engine/mod.rs` is `["engine"]`, `lib.rs` is `[]`.
fn module_of(path: &Path) -> Vec<String> {
    let path = path.with_extension("");
    let mut names: Vec<String> = path
        .components()
        .map(|name| name.as_os_str().to_string_lossy().into_owned())
        .collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib")) {
        names.pop();
    }
    names
}

fn absolute(here: &[String], path: &str) -> Vec<String> {
    let mut names: Vec<String> = here.to_vec();
    for name in path.split("::") {
        match name {
            "crate" => names.clear(),
            "super" => drop(names.pop()),
            "self" => {}
            name => names.push(name.to_owned()),
        }
    }
    names
}

/// The modules that a text declares.
fn children(text: &str) -> Vec<String> {
    let declared = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let name = line.strip_prefix("mod ")?;
        name.contains(';').then(|| leading_name(name))
    };
    let code = code(text);
    code.split_inclusive(['\n', ';'])
        .filter_map(declared)
        .collect()
}

/// Every path in a text that begins with `crate`, `super` or `self`, in order and once.
fn paths(text: &str) -> Vec<String> {
    let code = code(text);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("::") {
        let before = &code[..at];
        let start = before
            .rfind(|character: char| !character.is_alphanumeric() && character != '_')
            .map_or(0, |at| at + 1);
        let is_first = !before[..start].ends_with("::");
        if is_first && matches!(&before[start..], "crate" | "super" | "self") {
            branches(&before[start..], &code[at + 2..], &mut found);
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Adds the paths that go on from `stem` at the beginning of `rest`: one, or those in braces.
/// Returns what follows them.
fn branches<'a>(stem: &str, rest: &'a str, found: &mut Vec<String>) -> &'a str {
    let Some(mut list) = rest.strip_prefix('{') else {
        let name = leading_name(rest);
        let path = format!("{stem}::{name}");
        let after = &rest[name.len()..];
        return match after.strip_prefix("::") {
            Some(deeper) => branches(&path, deeper, found),
            None => {
                found.push(path);
                after
            }
        };
    };
    loop {
        list = list
            .trim_start_matches(|character: char| character.is_whitespace() || character == ',');
        if list.is_empty() || list.starts_with('}') {
            return list.get(1..).unwrap_or_default();
        }
        list = branches(stem, list, found);
        // `as name`
        list = list.trim_start_matches(|character| !matches!(character, ',' | '}'));
    }
}

/// The text without comments, and without the tests at its end.
fn code(text: &str) -> String {
    let lines: Vec<&str> = code_lines(text).map(|(_, line)| line).collect();
    let begins_tests = |pair: &[&str]| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod tests {")
    };
    let end = lines.windows(2).position(begins_tests);
    lines[..end.unwrap_or(lines.len())].join("\n")
}

fn leading_name(text: &str) -> String {
    text.chars()
        .take_while(|character| character.is_alphanumeric() || *character == '_')
        .collect()
}

/// Before the first release there is nothing of that name to install.
#[test]
fn the_lines_that_install_it_work_today() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |page: &str| fs::read_to_string(root.join(page)).unwrap();
    if !read("CHANGELOG.md").contains("- unreleased") {
        return;
    }
    for page in [
        "README.md",
        "redlock-cli/README.md",
        "redlock-macros/README.md",
        "redlock-runtime/src/guide/operating.md",
    ] {
        let text = read(page);
        for line in ["redlock-runtime = \"", "cargo install redlock-cli"] {
            assert!(!text.contains(line), "{page}: {line}");
        }
    }
}

/// Phrases at which readers stop: what is "the same", how many are "so many", who must do what "is to be" done?
#[test]
fn pages_comments_and_messages_avoid_phrases_that_are_read_twice() {
    const PHRASES: [&str; 6] = [
        "The same",
        "that of those",
        "so many",
        "can be had",
        "in vain",
        "is to be",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut texts = BTreeMap::new();
    for folder in [
        "redlock-macros/src",
        "redlock-runtime/src",
        "redlock-runtime/protocol/src",
        "redlock-cli/src",
    ] {
        let crate_sources = sources(&format!("../{folder}")).into_iter();
        texts.extend(crate_sources.map(|(path, text)| (Path::new(folder).join(path), text)));
    }
    for folder in [
        "",
        "redlock-runtime/src",
        "redlock-runtime/src/guide",
        "tests",
    ] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                texts.insert(path.clone(), fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut found = Vec::new();
    for (path, text) in texts {
        // A phrase may go on in the next line of a comment.
        let words: Vec<&str> = text
            .split_whitespace()
            .filter(|word| !matches!(*word, "//" | "///" | "//!"))
            .collect();
        let text = words.join(" ");
        let phrases = PHRASES.into_iter().filter(|phrase| text.contains(phrase));
        found.extend(phrases.map(|phrase| format!("{}: {phrase}", path.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
