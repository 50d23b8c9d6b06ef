//! The protocol as a whole, in a world where nothing happens by chance.

mod ahead;
mod busy;
mod contention;
mod world;

use self::world::{HOP, LEASE, Mood, World, terms};
use super::*;

const ROUND_TRIP: Duration = Duration::from_millis(2);

fn is_acquire(request: &Request) -> bool {
    matches!(request, Request::Acquire { .. })
}

fn is_extend(request: &Request) -> bool {
    matches!(request, Request::Extend { .. })
}

fn is_release(request: &Request) -> bool {
    matches!(request, Request::Release { .. })
}

fn waiting(wait: Duration) -> Terms {
    Terms { wait, ..terms() }
}

fn renewing() -> Terms {
    Terms {
        renew: Some(default_renewal(LEASE)),
        ..terms()
    }
}

fn cause(answer: Answer) -> Cause {
    match answer {
        Answer::Refused(refusal) => refusal.cause,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_free_lock_takes_one_round_trip_and_counts_from_before_the_first_send() {
    let mut world = World::new(5);
    let asked = world.now;
    world.ask(1, "k", terms());
    let (deadline, token) = (asked.after(LEASE), Token(1));
    assert_eq!(world.answer(1), Answer::Granted { deadline, token });
    assert_eq!(world.now.since(asked), ROUND_TRIP);
}

/// Which node is asked first for `key`.
fn leader(key: &str, nodes: usize) -> usize {
    stripe(key) as usize % nodes
}

/// The nodes in the order in which they are asked for `key`.
fn order(key: &str, nodes: usize) -> Vec<usize> {
    let first = leader(key, nodes);
    (first..first + nodes).map(|node| node % nodes).collect()
}

fn token(answer: Answer) -> Token {
    match answer {
        Answer::Granted { token, .. } => token,
        other => panic!("not granted: {other:?}"),
    }
}

#[test]
fn counters_that_disagree_cost_a_second_round_once_and_tokens_grow() {
    let mut world = World::new(5);
    for (node, counter) in [30, 10, 20, 10, 0].into_iter().enumerate() {
        world.nodes[node].counter = Token(counter);
    }
    let asked = world.now;
    world.ask(1, "k", terms());
    assert_eq!(token(world.answer(1)), Token(31));
    assert_eq!(world.now.since(asked), 2 * ROUND_TRIP);
    world.end(1);
    world.run_for(ROUND_TRIP);
    let asked = world.now;
    world.ask(2, "k", terms());
    assert_eq!(token(world.answer(2)), Token(32));
    assert_eq!(world.now.since(asked), ROUND_TRIP);
}

#[test]
fn a_token_is_not_confirmed_on_keys_that_are_gone() {
    let mut world = World::new(3);
    for (node, counter) in [30, 10, 20].into_iter().enumerate() {
        world.nodes[node].counter = Token(counter);
    }
    world.ask(1, "k", terms());
    world.run_for(ROUND_TRIP);
    for node in &mut world.nodes {
        node.keys.clear();
    }
    assert_eq!(cause(world.answer(1)), Cause::TooSlow);
}

#[test]
fn a_minority_of_bad_nodes_costs_no_time() {
    for bad in [
        Mood::Dead,
        Mood::Mute,
        Mood::Slow(Duration::from_millis(900)),
    ] {
        let mut world = World::new(5);
        for node in [0, 2] {
            world.nodes[node].mood = bad;
            if bad == Mood::Dead {
                world.break_connection(node);
            }
        }
        let asked = world.now;
        world.ask(1, "k", terms());
        assert!(matches!(world.answer(1), Answer::Granted { .. }), "{bad:?}");
        assert_eq!(world.now.since(asked), ROUND_TRIP, "{bad:?}");
    }
}

#[test]
fn without_a_majority_there_is_no_lock_and_dead_nodes_tell_so_at_once() {
    let mut dead = World::starting(&[Mood::Dead, Mood::Dead, Mood::Dead, Mood::Well, Mood::Well]);
    dead.run_for(10 * HOP);
    let asked = dead.now;
    dead.ask(1, "k", terms());
    assert_eq!(cause(dead.answer(1)), Cause::NoQuorum);
    assert_eq!(dead.now, asked);
    dead.run_for(3 * HOP);
    assert_eq!(dead.holders("k"), []);

    let mut mute = World::starting(&[Mood::Mute, Mood::Mute, Mood::Well]);
    mute.run_for(10 * HOP);
    let asked = mute.now;
    mute.ask(1, "k", terms());
    assert_eq!(cause(mute.answer(1)), Cause::NoQuorum);
    assert_eq!(mute.now.since(asked), default_node_timeout(LEASE));
}

#[test]
fn half_of_four_nodes_is_no_quorum() {
    let mut world = World::starting(&[Mood::Dead, Mood::Dead, Mood::Well, Mood::Well]);
    world.run_for(20 * HOP);
    world.ask(1, "k", terms());
    assert_eq!(cause(world.answer(1)), Cause::NoQuorum);
}

#[test]
fn a_lost_attempt_is_released_on_every_node_that_was_asked_and_late_grants_with_it() {
    let late = Mood::Slow(Duration::from_millis(400));
    let mut world = World::starting(&[late, late, late, Mood::Well, Mood::Well]);
    world.run_for(20 * HOP);
    world.ask(1, "k", terms());
    assert_eq!(cause(world.answer(1)), Cause::NoQuorum);
    assert_eq!(world.sends(is_release).len(), 5);
    // The grants come after the verdict, and the releases right behind them.
    world.run_for(Duration::from_millis(400));
    assert_eq!(world.holders("k"), []);
}

/// The caller goes away after any number of things have happened, for every number there is.
#[test]
fn whenever_the_caller_goes_away_nothing_is_left_two_round_trips_later() {
    let two_round_trips = 2 * ROUND_TRIP;
    let mixed = [
        Mood::Well,
        Mood::Slow(3 * HOP),
        Mood::Dead,
        Mood::Mute,
        Mood::Well,
    ];
    let cases = [
        (vec![Mood::Well; 5], two_round_trips),
        (vec![Mood::WithoutScripts; 3], two_round_trips),
        // The mute node is given up now and then, and released once it is connected again.
        (mixed.to_vec(), Duration::from_secs(2)),
    ];
    for (moods, settled) in cases {
        for steps in 0..60 {
            let mut world = World::starting(&moods);
            world.run_for(20 * HOP);
            world.ask(1, "k", renewing());
            for _ in 0..steps {
                world.step();
            }
            world.end(1);
            let ended = world.now;
            world.run_for(settled);
            assert_eq!(world.holders("k"), [], "{moods:?}, after {steps} steps");
            world.run_for(2 * LEASE);
            let renewals = world.sends(is_extend);
            assert!(
                renewals.iter().all(|&(at, _)| at <= ended),
                "a renewal after the release, {moods:?}, after {steps} steps"
            );
        }
    }
}

#[test]
fn a_release_that_a_broken_connection_took_along_is_sent_again() {
    let mut world = World::new(3);
    world.ask(1, "k", terms());
    world.answer(1);
    world.run_for(2 * HOP);
    world.nodes[0].mood = Mood::Slow(Duration::from_secs(3_600));
    world.end(1);
    world.nodes[0].mood = Mood::Well;
    world.break_connection(0);
    world.run_for(2 * HOP);
    assert_eq!(world.holders("k"), [0]);
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.holders("k"), []);
}

#[test]
fn a_release_that_a_node_refused_is_sent_again() {
    let mut world = World::new(3);
    world.ask(1, "k", terms());
    world.answer(1);
    world.run_for(2 * HOP);
    world.nodes[0].mood = Mood::Busy;
    let report = true;
    let lease = LeaseId(1);
    world.handle(Event::End { lease, report });
    assert_eq!(world.answer(1), Answer::Released(Outcome::Released));
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.holders("k"), [0]);
    world.nodes[0].mood = Mood::Well;
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.holders("k"), []);
}

#[test]
fn a_node_that_owes_an_answer_for_too_long_is_given_up() {
    let mut world = World::new(3);
    world.nodes[0].mood = Mood::Mute;
    world.ask(1, "k", terms());
    world.answer(1);
    world.run_for(Duration::from_millis(1_001));
    let gave_up = |(_, action): &(Instant, Action)| matches!(action, Action::Disconnect { node } if node.0 == 0);
    assert!(world.log.iter().any(gave_up));
}

#[test]
fn two_addresses_of_one_server_have_one_vote() {
    let mut world = World::starting(&[Mood::Well, Mood::Well, Mood::Dead]);
    let connections: Vec<ConnectionId> = world
        .log
        .iter()
        .filter_map(|(_, action)| match action {
            Action::Connect { connection, .. } => Some(*connection),
            _ => None,
        })
        .collect();
    for node in [0, 1] {
        world.handle(Event::Connected {
            node: NodeId(node),
            connection: connections[node],
            facts: Facts {
                server: Some("the same".into()),
                ..Facts::default()
            },
        });
    }
    world.ask(1, "k", terms());
    assert_eq!(cause(world.answer(1)), Cause::NoQuorum);
}

#[test]
fn a_node_that_may_drop_locks_has_no_vote_unless_it_is_allowed_to() {
    for (may_evict, votes) in [(false, 0), (true, 1)] {
        let mut world = World::starting(&[Mood::Dead]);
        let outside = Outside {
            random: Box::new(|| 1),
            wall_micros: Box::new(|| 1),
        };
        let settings = Settings {
            may_evict,
            ..world::SETTINGS
        };
        world.protocol = Protocol::new(1, settings, outside, world.now);
        world.handle(Event::Connected {
            node: NodeId(0),
            connection: ConnectionId(0),
            facts: Facts {
                evicts: Some("allkeys-lru".into()),
                ..Facts::default()
            },
        });
        let admits = |request: &Request| matches!(request, Request::Admit { .. });
        assert_eq!(world.sends(admits).len(), votes);
    }
}

fn quarantined(answer: Answer) -> usize {
    let Answer::Refused(refusal) = answer else {
        panic!("not refused: {answer:?}");
    };
    assert!(
        matches!(refusal.cause, Cause::Quarantined { .. }),
        "{refusal:?}"
    );
    let quarantined = |vote: &&Vote| matches!(vote, Vote::Failed(Fault::Quarantined(_)));
    refusal.votes.iter().filter(quarantined).count()
}

#[test]
fn servers_that_have_just_been_started_wait_for_one_lease_and_no_longer() {
    let mut world = World::starting(&[Mood::Well; 3]);
    for node in &mut world.nodes {
        node.uptime = Duration::ZERO;
    }
    // The facts were read before: connect anew.
    for node in 0..3 {
        world.break_connection(node);
    }
    world.run_for(Duration::from_millis(100));
    let asked = world.now;
    world.ask(1, "k", terms());
    assert_eq!(quarantined(world.answer(1)), 3);
    world.ask(2, "k", waiting(Duration::from_secs(60)));
    assert!(matches!(world.answer(2), Answer::Granted { .. }));
    assert!(world.now.since(asked) < world::SETTINGS.fresh_quarantine);
}

#[test]
fn a_node_that_lost_its_memory_does_not_vote_before_the_longest_key_has_expired() {
    let restarts: [fn(&mut World); 2] = [
        |world| {
            world.nodes[0].restart_empty();
            world.break_connection(0);
        },
        |world| world.nodes[0].forget(),
    ];
    for restart in restarts {
        let mut world = World::new(3);
        world.ask(1, "k", terms());
        world.answer(1);
        world.run_for(Duration::from_secs(1));
        restart(&mut world);
        let lost = world.now;
        // One of the two nodes that still know of the lock is gone: another owner would find a
        // majority if the third voted.
        world.nodes[1].keys.clear();
        world.end(1);
        world.run_for(Duration::from_millis(100));
        world.nodes[2]
            .keys
            .insert("k".into(), (Owner(7), world.now.after(20 * LEASE)));
        while world.now < lost.after(world::SETTINGS.quarantine) {
            world.ask(2, "k", terms());
            assert!(matches!(world.answer(2), Answer::Refused(_)));
            world.run_for(Duration::from_secs(1));
        }
        world.run_for(Duration::from_secs(1));
        world.ask(3, "k", terms());
        assert!(matches!(world.answer(3), Answer::Granted { .. }));
    }
}

#[test]
fn a_flush_before_the_first_question_is_seen_also_by_a_client_that_knows_no_node() {
    let mut world = World::starting(&[Mood::Well; 3]);
    // The nodes have told of themselves, and the question is on its way.
    world.run_for(2 * HOP);
    for node in &mut world.nodes {
        node.forget();
    }
    world.run_for(10 * HOP);
    world.ask(1, "k", terms());
    assert_eq!(quarantined(world.answer(1)), 3);
}

#[test]
fn neither_the_nodes_clock_nor_a_new_connection_shortens_a_quarantine() {
    let mut world = World::new(3);
    world.run_for(Duration::from_secs(60));
    world.nodes[0].restart_empty();
    world.break_connection(0);
    let began = world.now;
    world.run_for(Duration::from_secs(1));
    world.nodes[0].skip_quarantine();
    world.break_connection(0);
    world.run_for(Duration::from_secs(1));
    world.nodes[1].mood = Mood::Dead;
    world.break_connection(1);
    world.ask(1, "k", waiting(2 * world::SETTINGS.quarantine));
    assert!(matches!(world.answer(1), Answer::Granted { .. }));
    assert!(world.now.since(began) >= world::SETTINGS.quarantine);
}

#[test]
fn one_restarted_node_of_five_delays_nobody() {
    let mut world = World::new(5);
    world.nodes[0].restart_empty();
    world.break_connection(0);
    world.run_for(Duration::from_secs(1));
    let asked = world.now;
    world.ask(1, "k", terms());
    assert!(matches!(world.answer(1), Answer::Granted { .. }));
    assert_eq!(world.now.since(asked), ROUND_TRIP);
}

#[test]
fn a_readmitted_node_counts_on_from_the_others() {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        node.counter = Token(100);
    }
    world.nodes[0].restart_empty();
    world.break_connection(0);
    world.run_for(2 * world::SETTINGS.quarantine);
    world.nodes[2].mood = Mood::Mute;
    world.ask(1, "k", terms());
    assert_eq!(token(world.answer(1)), Token(101));
}

#[test]
fn a_node_without_counters_waits_for_those_that_are_still_being_connected_to() {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        node.counter = Token(100);
    }
    // Its memory is gone, without a flush, and it is admitted without delay, as one that has run
    // all along.
    world.nodes[0].forget();
    world.nodes[0].was_flushed = false;
    let world = &mut world.restart_client(&[1, 2]);
    world.run_for(2 * HOP + 2 * Duration::from_millis(40) + 4 * HOP);
    world.nodes[2].mood = Mood::Mute;
    world.ask(1, "k", terms());
    assert_eq!(token(world.answer(1)), Token(101));
}

#[test]
fn a_node_whose_clock_runs_ahead_has_no_vote_until_all_that_it_may_have_dropped_has_run_out() {
    let mut world = World::new(3);
    world.nodes[0].clock_ahead = Duration::from_millis(600);
    world.ask(1, "k", renewing());
    world.answer(1);
    world.nodes[1].mood = Mood::Dead;
    world.break_connection(1);
    while world.sends(is_extend).is_empty() {
        assert!(world.step());
    }
    world.run_for(ROUND_TRIP);
    assert_eq!(world.answers, [], "its vote makes no majority");
    world.nodes[1].mood = Mood::Well;
    assert!(matches!(world.answer(1), Answer::Extended { .. }));
    let end = world.log.iter().find_map(|(_, action)| match action {
        Action::NodeChanged {
            node: NodeId(0),
            state: NodeState::ClockAhead { until, .. },
        } => Some(*until),
        _ => None,
    });
    let end = end.expect("operators are told");
    world.nodes[0].clock_ahead = Duration::ZERO;
    let asked = |world: &World| {
        let sends = world.sends(|request| is_acquire(request) || is_extend(request));
        sends.iter().filter(|(_, node)| node.0 == 0).count()
    };
    let before = asked(&world);
    world.break_connection(0);
    while world.next().is_some_and(|next| next < end) {
        assert_eq!(asked(&world), before, "nor by a new connection");
        assert!(world.step());
    }
    world.run_for(LEASE);
    assert!(asked(&world) > before);
}

#[test]
fn a_clock_that_steps_within_the_guard_band_keeps_its_vote() {
    let mut world = World::new(1);
    world.ask(1, "k", renewing());
    world.answer(1);
    world.nodes[0].clock_ahead = Duration::from_millis(300);
    assert!(matches!(world.answer(1), Answer::Extended { .. }));
    world.nodes[0].clock_ahead = Duration::ZERO;
    assert!(matches!(world.answer(1), Answer::Extended { .. }));
    world.nodes[0].clock_ahead = Duration::from_millis(300);
    assert!(matches!(world.answer(1), Answer::Extended { .. }));
    // Once more in a row, and it is no step but the pace of the clock.
    assert!(matches!(
        world.answer(1),
        Answer::Over(Loss::Expired { .. })
    ));
}

#[test]
fn a_flush_of_scripts_alone_costs_a_round_trip_or_two_and_no_quarantine() {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        node.mood = Mood::WithoutScripts;
    }
    world.ask(1, "k", terms());
    assert!(matches!(world.answer(1), Answer::Granted { .. }));
    world.end(1);
    world.run_for(10 * HOP);
    assert_eq!(world.holders("k"), []);
}

#[test]
fn another_server_under_the_same_address_is_found_out_by_its_missing_scripts() {
    let mut world = World::new(3);
    // A replica with all the data, and with another process id, behind the same connection.
    world.nodes[0].process = "a replica".into();
    world.nodes[0].mood = Mood::WithoutScripts;
    world.nodes[1].mood = Mood::Mute;
    world.ask(1, "k", terms());
    assert_eq!(quarantined(world.answer(1)), 1);
}

#[test]
fn renewals_hold_a_lock_until_max_hold() {
    let mut world = World::new(3);
    let asked = world.now;
    let most = Duration::from_secs(12);
    world.ask(
        1,
        "k",
        Terms {
            max_hold: Some(most),
            ..renewing()
        },
    );
    world.answer(1);
    while let Answer::Extended { deadline } = world.answer(1) {
        assert!(deadline <= asked.after(most));
    }
    assert_eq!(world.now.since(asked), most);
}

#[test]
fn locks_that_were_acquired_at_once_are_not_renewed_at_once() {
    let mut world = World::new(1);
    let began = world.now;
    for lease in 1..=100 {
        world.ask(lease, &lease.to_string(), renewing());
    }
    world.run_for(default_renewal(LEASE) + ROUND_TRIP);
    let sent = world.sends(is_extend).into_iter();
    let mut times: Vec<Duration> = sent.map(|(at, _)| at.since(began)).collect();
    assert_eq!(times.len(), 100);
    assert!(
        times
            .iter()
            .all(|&time| time >= default_renewal(LEASE) * 7 / 8)
    );
    times.dedup();
    assert!(times.len() > 90, "{}", times.len());
}

#[test]
fn a_majority_of_deleted_keys_is_a_loss_and_no_renewal_makes_them_again() {
    let mut world = World::new(3);
    world.ask(1, "k", renewing());
    world.answer(1);
    world.run_for(2 * HOP);
    for node in &mut world.nodes[..2] {
        node.keys.clear();
    }
    assert!(matches!(world.answer(1), Answer::Over(Loss::Lost { .. })));
    assert_eq!(world.holders("k"), [2]);
}

#[test]
fn a_deletion_that_the_nodes_tell_of_is_a_loss_within_a_round_trip() {
    let mut world = World::new(3);
    world.ask(1, "k", terms());
    world.answer(1);
    world.run_for(Duration::from_millis(100));
    let told = world.now;
    for node in [0, 2] {
        world.nodes[node].keys.clear();
        let key = Some("k".into());
        world.handle(Event::Changed {
            node: NodeId(node),
            key,
        });
    }
    assert!(matches!(world.answer(1), Answer::Over(Loss::Lost { .. })));
    assert_eq!(world.now.since(told), ROUND_TRIP);
}

#[test]
fn a_new_connection_reads_what_is_watched_again() {
    let mut world = World::new(3);
    world.ask(1, "k", terms());
    world.answer(1);
    world.run_for(Duration::from_millis(100));
    world.nodes[1].keys.clear();
    world.nodes[2].keys.clear();
    for node in [1, 2] {
        world.break_connection(node);
    }
    let broken = world.now;
    assert!(matches!(world.answer(1), Answer::Over(Loss::Lost { .. })));
    assert!(world.now.since(broken) < Duration::from_millis(100));
}

#[test]
fn word_of_a_change_that_changed_nothing_is_no_loss() {
    let mut world = World::new(3);
    world.ask(1, "k", terms());
    world.answer(1);
    for node in 0..3 {
        world.handle(Event::Changed {
            node: NodeId(node),
            key: None,
        });
    }
    assert!(matches!(
        world.answer(1),
        Answer::Over(Loss::Expired { .. })
    ));
}

#[test]
fn a_lease_that_cannot_be_renewed_ends_at_its_deadline_and_not_later() {
    let mut world = World::new(3);
    let asked = world.now;
    world.ask(1, "k", renewing());
    world.answer(1);
    for node in &mut world.nodes {
        node.mood = Mood::Mute;
    }
    assert!(matches!(
        world.answer(1),
        Answer::Over(Loss::Expired { .. })
    ));
    assert_eq!(world.now.since(asked), LEASE);
}

#[test]
fn one_of_a_process_talks_to_the_nodes_and_the_line_is_served_in_order() {
    let mut world = World::new(3);
    for lease in 1..=20 {
        world.ask(lease, "k", waiting(LEASE));
    }
    for lease in 1..=20 {
        assert!(matches!(world.answer(lease), Answer::Granted { .. }));
        assert!(world.answers.is_empty(), "only one holds it");
        world.end(lease);
    }
    assert_eq!(world.sends(is_acquire).len(), 3 + 19 * 2);
    world.run_for(2 * HOP);
    assert_eq!(world.holders("k"), []);
}

#[test]
fn ten_thousand_that_give_up_at_once_are_no_deeper_than_one() {
    let mut world = World::starting(&[Mood::Dead; 3]);
    world.run_for(20 * HOP);
    for lease in 1..=10_000 {
        world.ask(lease, "k", waiting(LEASE));
    }
    world.now = world.now.after(2 * LEASE);
    world.handle(Event::Wakeup);
    assert_eq!(world.answers.len(), 10_000);
}

#[test]
fn one_that_leaves_the_line_is_passed_over() {
    let mut world = World::new(3);
    for lease in 1..=3 {
        world.ask(lease, "k", waiting(LEASE));
    }
    world.answer(1);
    world.end(2);
    world.end(1);
    assert!(matches!(world.answer(3), Answer::Granted { .. }));
    assert!(world.answers.is_empty());
}

#[test]
fn waiting_ends_in_time_with_a_last_attempt() {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        node.keys
            .insert("k".into(), (Owner(7), world.now.after(LEASE)));
    }
    let asked = world.now;
    let wait = Duration::from_millis(100);
    world.ask(1, "k", waiting(wait));
    world.ask(2, "k", waiting(wait / 2));
    assert!(matches!(cause(world.answer(2)), Cause::Contended { .. }));
    assert_eq!(world.now.since(asked), wait / 2);
    let Cause::Contended {
        retry_after: Some(after),
    } = cause(world.answer(1))
    else {
        panic!("the time left is known");
    };
    assert_eq!(world.now.since(asked), wait + ROUND_TRIP);
    assert!(after > LEASE - 2 * wait && after < LEASE);
}

#[test]
fn a_caller_that_does_not_wait_hears_of_an_outage_and_not_of_contention() {
    let mut world = World::starting(&[Mood::Dead; 3]);
    world.run_for(20 * HOP);
    world.ask(1, "k", waiting(LEASE));
    world.ask(2, "k", terms());
    assert_eq!(cause(world.answer(2)), Cause::NoQuorum);
}

#[test]
fn who_waits_for_nodes_tries_as_soon_as_one_is_back() {
    let mut world = World::starting(&[Mood::Well, Mood::Dead, Mood::Dead]);
    world.run_for(20 * HOP);
    world.ask(1, "k", waiting(LEASE));
    world.run_for(Duration::from_secs(1));
    world.nodes[1].mood = Mood::Well;
    assert!(matches!(world.answer(1), Answer::Granted { .. }));
}

#[test]
fn a_lock_that_another_process_holds_is_won_when_its_keys_expire() {
    let mut world = World::new(4);
    let expiry = world.now.after(20 * HOP);
    for node in &mut world.nodes[..2] {
        node.keys.insert("k".into(), (Owner(7), expiry));
    }
    world.ask(1, "k", waiting(LEASE));
    assert!(matches!(world.answer(1), Answer::Granted { .. }));
    assert!(world.now >= expiry);
    assert!(world.holders("k").len() >= 3);
}

#[test]
fn a_node_without_scripts_is_sent_their_text() {
    let mut world = World::starting(&[Mood::WithoutScripts; 3]);
    world.run_for(20 * HOP);
    world.ask(1, "k", terms());
    assert!(matches!(world.answer(1), Answer::Granted { .. }));
    world.end(1);
    world.run_for(4 * HOP);
    assert_eq!(world.holders("k"), []);
}

#[test]
fn the_outcome_of_a_release_is_what_the_nodes_say() {
    let release = |spoil: fn(&mut World)| {
        let mut world = World::new(3);
        world.ask(1, "k", terms());
        world.answer(1);
        world.run_for(2 * HOP);
        spoil(&mut world);
        world.release(1);
        world.answer(1)
    };
    assert_eq!(release(|_| {}), Answer::Released(Outcome::Released));
    assert_eq!(
        release(|world| world.nodes[..2]
            .iter_mut()
            .for_each(|node| node.keys.clear())),
        Answer::Released(Outcome::AlreadyExpired)
    );
    assert_eq!(
        release(|world| world
            .nodes
            .iter_mut()
            .for_each(|node| node.mood = Mood::Mute)),
        Answer::Released(Outcome::Unknown)
    );
}

#[test]
fn a_shutdown_waits_for_holders_and_releases_and_refuses_everybody_else() {
    let mut world = World::new(3);
    world.ask(1, "k", waiting(LEASE));
    world.ask(2, "k", waiting(LEASE));
    world.answer(1);
    let (timeout, cut_off) = (LEASE, false);
    world.handle(Event::Shutdown { timeout, cut_off });
    world.ask(3, "other", terms());
    assert_eq!(cause(world.answer(2)), Cause::Stopped);
    assert_eq!(cause(world.answer(3)), Cause::Stopped);
    world.run_for(20 * HOP);
    assert_eq!(world.drained, None);
    world.end(1);
    world.run_for(2 * HOP);
    assert_eq!(world.drained, Some(Drained::default()));
    assert_eq!(world.holders("k"), []);
}

#[test]
fn a_shutdown_ends_in_time_and_tells_who_still_holds() {
    let mut world = World::new(3);
    world.ask(1, "k", renewing());
    world.answer(1);
    let asked = world.now;
    let (timeout, cut_off) = (Duration::from_secs(30), false);
    world.handle(Event::Shutdown { timeout, cut_off });
    while world.drained.is_none() {
        world.step();
    }
    assert_eq!(world.now.since(asked), timeout);
    assert_eq!(world.drained.map(|left| left.held), Some(1));
    let over = |(_, answer): &(LeaseId, Answer)| *answer == Answer::Over(Loss::Stopped);
    assert!(world.answers.iter().any(over));
}

#[test]
fn a_second_shutdown_sets_the_time_anew() {
    let mut world = World::new(3);
    world.ask(1, "k", renewing());
    world.answer(1);
    let asked = world.now;
    for seconds in [1, 3] {
        let (timeout, cut_off) = (Duration::from_secs(seconds), false);
        world.handle(Event::Shutdown { timeout, cut_off });
    }
    while world.drained.is_none() {
        world.step();
    }
    assert_eq!(world.now.since(asked), Duration::from_secs(3));
}

#[test]
fn the_same_events_give_the_same_actions() {
    let run = || {
        let mut world = World::starting(&[Mood::Well, Mood::Slow(9 * HOP), Mood::Dead]);
        for lease in 1..=10 {
            world.ask(lease, "k", waiting(LEASE));
        }
        for _ in 0..500 {
            world.step();
            if let Some((lease, Answer::Granted { .. })) = world.answers.pop() {
                world.end(lease.0);
            }
        }
        world.log
    };
    assert_eq!(run(), run());
}
