//! Rules about the source itself: who may import whom, what the protocol must not contain, and
//! how long a function may get. For this crate and for the protocol, which lies in its folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What each part of this crate may import of the others.
const LAYERS: &str = "
    clock:
    script:
    node: limitation clock script
    limitation:
    health: limitation
    keys:
    status: keys
    observe: config error health key status
    engine: clock node observe status
    inspect: config health key node script status
    tool: builder clock config health inspect keys lock node redlock script
    config: health key limitation node script
    error: config health key
    fence:
    guide:
    key:
    node_set: config engine observe
    asked: engine error node_set observe status
    nesting: asked keys node_set
    blocking: config
    lease: asked config error nesting observe script status
    section: asked blocking config engine error inspect keys lease nesting node_set observe script status
    leader: clock config lease node node_set script
    guard: error lease section
    lock: config error guard keys leader lease node_set section
    redlock: config error health inspect keys lease lock nesting node_set
    election: error guard leader lease lock redlock
    current: redlock
    install: config redlock current
    http_answer: error lock
    builder: blocking clock config engine health install node node_set observe redlock status
    redlock_config: builder config node redlock
    testing: builder config node observe redlock current
    macro_support: config election error key keys lease redlock section
";

/// The same for the protocol: `protocol` joins its parts, and `key` asks `node`, not the other way round.
/// Values and rules need each other, one file the other but none itself.
const LAYERS_OF_PROTOCOL: &str = "
    time:
    unreachable:
    rules: action message time
    message: rules
    action: message rules time unreachable
    event: message rules unreachable
    settings:
    purpose: message
    timer: purpose message time
    model: message rules time
    node: action purpose message rules settings time unreachable
    key: action purpose message node rules settings time
    compound: action message rules time
    protocol: action purpose compound event key message node rules settings time timer
";

const CRATES: [(&str, &str); 2] = [("src", LAYERS), (PROTOCOL, LAYERS_OF_PROTOCOL)];

const PROTOCOL: &str = "protocol/src";

/// What the protocol must not contain. It has no dependencies, and its `clippy.toml` refuses maps without an order.
const BANNED_IN_PROTOCOL: &[&str] = &[
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
    "println!",
];

/// Lines from `fn` to its closing brace.
const LONGEST_FUNCTION: usize = 70;

#[test]
fn every_module_imports_only_what_its_layer_allows() {
    let mut violations = Vec::new();
    for (root, layers) in CRATES {
        for (path, text) in sources(root) {
            let Some(layer) = module_of(&path).into_iter().next() else {
                continue;
            };
            let mut rows = layers.lines().filter_map(|row| row.trim().split_once(':'));
            let (_, allowed) = rows
                .find(|(name, _)| *name == layer)
                .unwrap_or_else(|| panic!("`{layer}` has no place in the table of layers"));
            for import in imports(&text) {
                if import != layer && !allowed.split(' ').any(|part| part == import) {
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
        let circle = circle(needs(&sources));
        assert!(circle.is_empty(), "{root}: {circle:#?}");
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
            let qualifiers = ["pub", "pub(crate)", "pub(super)", "const", "async"];
            let word = starts.split(' ').find(|word| !qualifiers.contains(word));
            if word == Some("fn") && open.is_none() {
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
    assert!(circle(needs(&files("use std::fmt;"))).is_empty());
    for back in [
        "use super::Engine;",
        "use crate::node;",
        "fn f() { super::super::node::g() }",
    ] {
        assert!(!circle(needs(&files(back))).is_empty(), "{back}");
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
            let here = module_of(path);
            let children = test_modules(text).into_iter();
            children.map(move |name| [&here[..], &[name]].concat())
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
fn test_modules(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = |pair: &[&str]| {
        let name = pair[1].strip_prefix("mod ")?.strip_suffix(';')?;
        let is_for_tests = pair[0].contains("test") && !pair[0].contains("feature");
        (pair[0].starts_with("#[cfg(") && is_for_tests).then(|| name.to_owned())
    };
    lines.windows(2).filter_map(declared).collect()
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
            needed.extend(modules.get(&[&here[..], &[child]].concat()).copied());
        }
        needed.remove(path.as_path());
        needs.insert(path.as_path(), needed);
    }
    needs
}

/// The files that need themselves by way of others: those that are left when whoever needs none of the rest goes, and
/// whoever none of the rest needs.
fn circle<'a>(
    mut needs: BTreeMap<&'a Path, BTreeSet<&'a Path>>,
) -> BTreeMap<&'a Path, BTreeSet<&'a Path>> {
    loop {
        let before = needs.len();
        let files: BTreeSet<&Path> = needs.keys().copied().collect();
        let needed: BTreeSet<&Path> = needs.values().flatten().copied().collect();
        needs.retain(|file, of_file| {
            of_file.retain(|other| files.contains(other));
            !of_file.is_empty() && needed.contains(file)
        });
        if needs.len() == before {
            return needs;
        }
    }
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
