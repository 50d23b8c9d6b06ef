//! Fleets of processes, as programs that are run at more length by hand; each says in its source what
//! it fails for.

use redlock_tests::Worker;

/// Five processes ask for one lock once and at the same instant; exactly one of them wins each time.
#[test]
fn of_processes_that_ask_at_the_same_instant_without_waiting_exactly_one_wins() {
    assert_succeeds(env!("CARGO_BIN_EXE_one_winner"), "50");
}

/// No update is lost with or without `mixed_fleet(true)`, and with it the clients of another library
/// get a quarter of the sections or more.
#[test]
fn clients_of_another_library_under_load_exclude_us_and_get_their_share() {
    assert_succeeds(env!("CARGO_BIN_EXE_mixed_fleet"), "2");
}

fn assert_succeeds(program: &str, argument: &str) {
    Worker::spawn(program, &[argument], &[]).wait_success();
}
