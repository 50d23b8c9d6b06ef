//! The examples of the page on tests: each of its blocks stands in one of these files.

mod annotated_function;
mod lost_lock;
mod threads;
mod time;

const PAGE: &str = include_str!("../../../redlock-runtime/src/guide/testing.md");

#[test]
fn every_example_of_the_page_is_a_test_of_this_program() {
    let files = [
        include_str!("annotated_function.rs"),
        include_str!("lost_lock.rs"),
        include_str!("threads.rs"),
        include_str!("time.rs"),
    ];
    let blocks = PAGE.split("```rust\n").skip(1);
    let blocks: Vec<&str> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), files.len());
    for block in blocks {
        assert!(files.iter().any(|file| file.ends_with(block)), "{block}");
    }
}
