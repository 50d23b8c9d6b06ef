//! How large the futures are, by `size_of_val`: the same on every run of one compiler.

use crate::functions::{Kilobyte, argument, local, nothing, spent_argument, string};

/// What the attribute may add to the future of a function that uses its arguments after an
/// `await`. Such a function keeps each argument twice without a lock as well, once as it was given
/// and once as the body's: that is rustc's doing, and this bound tells that there is no third.
const LOCK: usize = 672;

/// Prints them, and says which are larger than they may be.
pub(crate) fn measure() -> Vec<String> {
    const KILOBYTE: Kilobyte = Kilobyte([1; 1024]);
    let name = String::new;
    let rows = [
        (
            "no arguments",
            0,
            size_of_val(&nothing::annotated()),
            size_of_val(&nothing::plain()),
        ),
        (
            "1 KiB argument",
            0,
            size_of_val(&argument::annotated(KILOBYTE)),
            size_of_val(&argument::plain(KILOBYTE)),
        ),
        (
            "1 KiB argument, spent at once",
            // The plain function keeps it once; with a lock it waits for it in the body.
            size_of::<Kilobyte>(),
            size_of_val(&spent_argument::annotated(KILOBYTE)),
            size_of_val(&spent_argument::plain(KILOBYTE)),
        ),
        (
            "1 KiB local",
            0,
            size_of_val(&local::annotated()),
            size_of_val(&local::plain()),
        ),
        (
            "String argument",
            0,
            size_of_val(&string::annotated(name())),
            size_of_val(&string::plain(name())),
        ),
    ];
    let mut complaints = Vec::new();
    for (body, arguments, annotated, plain) in rows {
        println!("{body}: the annotated future has {annotated} bytes, the plain one {plain}");
        let most = plain + LOCK + arguments;
        if annotated > most {
            complaints.push(format!("{body}: {annotated} bytes, more than {most}"));
        }
    }
    complaints
}

#[test]
fn the_lock_adds_a_constant_and_no_copy_of_an_argument() {
    assert_eq!(measure(), [""; 0]);
}
