//! The pages name messages, files and examples that exist, and are easy to read.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(page: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// All source files below a folder.
fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut folders = vec![PathBuf::from(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = read(&path);
                files.push((path, text));
            }
        }
    }
    files
}

/// They in one text, without the breaks within string literals.
fn sources(folder: &str) -> String {
    let files = files(folder);
    let text: String = files.into_iter().map(|(_, text)| text).collect();
    let lines: Vec<&str> = text.split("\\\n").map(str::trim_start).collect();
    lines.concat()
}

/// The pieces of code in the first cells of the table of a section, which is named by its heading.
fn first_cells<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap();
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn every_message_that_has_a_remedy_is_in_the_source() {
    let page = read("redlock-runtime/src/guide/operating.md");
    let messages = first_cells(&page, "# From a message to its remedy");
    let sources = sources("redlock-runtime/src") + &sources("redlock-runtime/protocol/src");
    assert!(messages.len() > 15, "the table is not found: {messages:?}");
    for message in messages {
        assert!(sources.contains(message), "no error says: {message}");
    }
}

#[test]
fn every_file_that_owns_state_exists() {
    let page = read("ARCHITECTURE.md");
    let files = first_cells(&page, "## Owners");
    assert!(files.len() > 30, "the table is not found: {files:?}");
    let folders = ["", "redlock-runtime/protocol/src", "redlock-runtime/src"];
    let folders = folders.map(|folder| root().join(folder));
    for file in files {
        let exists = folders.iter().any(|folder| folder.join(file).exists());
        assert!(exists, "there is no {file}");
    }
}

/// Readers have ten minutes: a page that grows must lose something else.
#[test]
fn pages_are_short() {
    let words = |page: &str| read(page).split_whitespace().count();
    let lines = |page: &str| read(page).lines().count();
    assert!(lines("README.md") <= 110);
    assert!(lines("ARCHITECTURE.md") <= 100);
    assert!(words("tests/SIMULATION.md") <= 900);
    assert!(words("tests/TARGETS.md") <= 1_500);
    assert!(words("redlock-runtime/src/guarantees.md") <= 2_500);
    let guide = pages("redlock-runtime/src/guide");
    let guide: Vec<_> = guide.iter().map(|page| words(page)).collect();
    assert!(guide.iter().sum::<usize>() <= 14_000, "{guide:?}");
    let inside = [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "tests/SIMULATION.md",
    ];
    let inside = inside.map(words);
    assert!(inside.iter().sum::<usize>() <= 5_000, "{inside:?}");
}

/// All pages of a folder, so that a new one counts too.
fn pages(folder: &str) -> Vec<String> {
    let names = fs::read_dir(root().join(folder)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages = names.filter(|name| name.ends_with(".md"));
    pages.map(|name| format!("{folder}/{name}")).collect()
}

/// Who types in the page has the example, which is compiled and run.
#[test]
fn the_page_from_nothing_is_its_example() {
    let page = read("redlock-runtime/src/guide/from_nothing.md");
    let blocks = |fence: &str| -> Vec<String> {
        let blocks = page.split(fence).skip(1);
        let ends = blocks.map(|rest| rest.split_once("```\n").unwrap().0.to_owned());
        ends.collect()
    };
    let example = read("examples/from_nothing/main.rs");
    assert_eq!(blocks("```rust\n").join("\n"), example);

    let of_page: toml::Table = blocks("```toml\n").concat().parse().unwrap();
    let of_example: toml::Table = read("examples/from_nothing/Cargo.toml").parse().unwrap();
    for table in ["dependencies", "dev-dependencies"] {
        let (page, example) = (&of_page[table], &of_example[table]);
        let names = |table: &toml::Value| -> Vec<String> {
            table.as_table().unwrap().keys().cloned().collect()
        };
        assert_eq!(names(page), names(example));
        for name in names(page) {
            let features = |table: &toml::Value| table[&name].get("features").cloned();
            let (page, example) = (features(page), features(example));
            assert_eq!(page, example, "features of {name}");
        }
    }
}

#[test]
fn the_index_of_examples_lists_all_of_them() {
    let index = read("examples/README.md");
    let mut listed: Vec<&str> = index
        .lines()
        .filter_map(|line| line.strip_prefix("| [`"))
        .filter_map(|row| row.split('`').next())
        .collect();
    let mut examples = Vec::new();
    for package in [
        "basics",
        "dashboard",
        "frameworks",
        "from_nothing",
        "services",
        "stores",
    ] {
        let manifest = read(Path::new("examples").join(package).join("Cargo.toml"));
        let tables = manifest.split("[[example]]").skip(1);
        let names = tables.map(|table| table.split('"').nth(1).unwrap().to_owned());
        examples.extend(names);
    }
    examples.sort();
    listed.sort_unstable();
    assert_eq!(listed, examples);
}

/// Readers meet them one by one: in an editor, in a search, in a list.
#[test]
fn docs_of_methods_are_short_and_begin_with_a_verb() {
    // What only this workspace calls.
    let hidden = [
        "macro_support.rs",
        "tool.rs",
        "key.rs",
        "option_rules.rs",
        "section_info.rs",
    ];
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, text) in files("redlock-runtime/src") {
        let mut docs: Vec<&str> = Vec::new();
        for (number, line) in text.lines().map(str::trim).enumerate() {
            if let Some(line) = line.strip_prefix("///") {
                docs.push(line.trim());
            } else if !line.starts_with("#[") && !line.starts_with("//") {
                let is_method = line.starts_with("pub ") && line.contains("fn ");
                if is_method && !docs.is_empty() {
                    count += 1;
                    let word = docs[0].split([' ', ',']).next().unwrap();
                    let is_verb = word.ends_with('s') && word.chars().all(char::is_alphabetic);
                    let is_hidden = hidden.iter().any(|file| path.ends_with(file));
                    if !is_verb && !is_hidden || shown(&docs) > 25 {
                        wrong.push(format!("{}:{}: {}", path.display(), number + 1, docs[0]));
                    }
                }
                docs.clear();
            }
        }
    }
    assert!(count > 150, "the methods are not found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// How many lines a reader sees: without the fences of examples, and what they hide.
fn shown(docs: &[&str]) -> usize {
    let mut in_code = false;
    let lines = docs.iter().filter(|line| {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        !is_fence && !(in_code && (line.starts_with("# ") || **line == "#"))
    });
    lines.count()
}

/// Before the first release there is nothing of that name to install.
#[test]
fn the_lines_that_install_it_work_today() {
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
    let crates = ["macros", "runtime", "runtime/protocol", "cli"];
    let sources = crates.map(|name| files(&format!("redlock-{name}/src")));
    let is_test = |path: &Path| path.to_str().unwrap().contains("tests");
    let sources = sources.into_iter().flatten();
    let mut texts: Vec<_> = sources.filter(|(path, _)| !is_test(path)).collect();
    for folder in [
        ".",
        "redlock-runtime/src",
        "redlock-runtime/src/guide",
        "tests",
    ] {
        texts.extend(pages(folder).iter().map(|page| (page.into(), read(page))));
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
