//! Several who want the same lock: within this process, and another one.

use super::*;

const OTHER: Owner = Owner(99);

/// For how long one leaves a free lock to another who has waited for longer by a turn.
const PLACE: Duration = Duration::from_millis(4);

fn held_by_another(world: &mut World, key: &str) {
    let expires = world.now.after(Duration::from_secs(60));
    for node in &mut world.nodes {
        node.keys.insert(key.into(), (OTHER, expires));
    }
}

/// Lease 1 waits for a lock that another process holds, and has just begun a long pause.
fn wait_for_another(world: &mut World, key: &str) {
    held_by_another(world, key);
    world.ask(1, key, waiting(LEASE));
    world.run_for(Duration::from_secs(1));
    let asked = world.sends(is_acquire).len();
    while world.sends(is_acquire).len() == asked {
        assert!(world.step());
    }
    world.run_for(5 * HOP);
}

/// The other process lets go, and the nodes tell.
fn released_by_the_other(world: &mut World, key: &str) {
    for node in 0..world.nodes.len() {
        world.nodes[node].keys.clear();
        let news = Event::Changed {
            node: NodeId(node),
            key: Some(key.into()),
        };
        world.handle(news);
    }
}

#[test]
fn a_lock_is_handed_on_in_one_round_and_its_last_holder_hears_that_it_was_released() {
    let mut world = World::new(5);
    world.ask(1, "k", terms());
    world.ask(2, "k", waiting(LEASE));
    let first = token(world.answer(1));
    let ended = world.now;
    world.release(1);
    assert_eq!(
        world.answer(1),
        Answer::Released(Outcome::Released),
        "by the nodes' word"
    );
    let Answer::Granted { deadline, token } = world.answer(2) else {
        panic!("handed over")
    };
    assert_eq!(world.now.since(ended), ROUND_TRIP);
    assert_eq!(deadline, ended.after(LEASE), "a fresh lease");
    assert!(token > first);
    // A majority was asked, and nothing was released.
    assert_eq!(world.sends(is_acquire).len(), 5 + 3);
    assert_eq!(world.sends(is_release), []);
    assert_eq!(world.holders("k").len(), 5);
    world.release(2);
    assert_eq!(world.answer(2), Answer::Released(Outcome::Released));
    assert_eq!(world.holders("k"), []);
}

/// When the key expires on each node.
fn expiries(world: &World, key: &str) -> Vec<Instant> {
    let keys = world.nodes.iter().filter_map(|node| node.keys.get(key));
    keys.map(|&(_, expires)| expires).collect()
}

#[test]
fn a_hand_over_leaves_a_key_alone_that_lives_long_enough() {
    let mut world = World::new(3);
    world.ask(1, "k", terms());
    for lease in 2..=20 {
        world.ask(lease, "k", waiting(LEASE));
    }
    world.answer(1);
    world.run_for(4 * HOP);
    let mut written = Vec::new();
    for lease in 2..=20 {
        let asked = world.now;
        world.end(lease - 1);
        world.answer(lease);
        let mut expiries = expiries(&world, "k");
        expiries.sort_unstable();
        // A majority was asked. Of the third one it is only known what another lease wanted.
        assert!(expiries[1] >= asked.after(terms().key_ttl()), "{lease}");
        written.push(expiries[2]);
    }
    written.dedup();
    assert_eq!(written.len(), 1, "the first hand-over's is enough for all");
}

/// Waits for long, for a lease of this length.
fn lasting(lease: Duration) -> Terms {
    Terms {
        wait: Duration::from_secs(600),
        ..Terms::of(lease)
    }
}

fn is_clock_ahead(action: &Action) -> bool {
    let Action::NodeChanged { state, .. } = action else {
        return false;
    };
    matches!(state, NodeState::ClockAhead { .. })
}

#[test]
fn a_lease_of_another_length_begins_with_a_key_of_its_own() {
    let mut world = World::new(3);
    world.ask(1, "k", terms());
    world.answer(1);
    for (lease, seconds) in [(2, 60), (3, 1)] {
        let terms = lasting(Duration::from_secs(seconds));
        world.ask(lease, "k", terms);
        world.end(lease - 1);
        let expected = world.now.after(HOP + terms.key_ttl());
        world.answer(lease);
        world.run_for(ROUND_TRIP);
        assert_eq!(expiries(&world, "k"), [expected; 3]);
    }
}

#[test]
fn what_comes_late_of_a_shorter_lease_takes_the_lock_from_nobody() {
    let mut world = World::new(3);
    let [_, slow, dead] = order("k", 3)[..] else {
        unreachable!()
    };
    world.ask(1, "k", terms());
    world.ask(2, "k", lasting(Duration::from_secs(1)));
    world.ask(3, "k", lasting(Duration::from_secs(60)));
    world.answer(1);
    world.run_for(4 * HOP);
    world.nodes[slow].mood = Mood::Slow(Duration::from_millis(400));
    world.end(1);
    assert!(matches!(world.answer(2), Answer::Granted { .. }));
    world.break_connection(slow);
    world.nodes[slow].mood = Mood::Well;
    world.run_for(Duration::from_millis(50));
    world.nodes[dead].mood = Mood::Dead;
    world.break_connection(dead);
    world.end(2);
    assert!(matches!(world.answer(3), Answer::Granted { .. }));
    world.run_for(Duration::from_secs(2));
    world.nodes[dead].mood = Mood::Well;
    world.run_for(Duration::from_secs(2));
    assert!(world.answers.is_empty(), "the holder has heard nothing");
    let mut other = world.restart_client(&[]);
    other.run_for(Duration::from_millis(20));
    other.ask(9, "k", terms());
    assert!(matches!(other.answer(9), Answer::Refused(_)));
}

#[test]
fn grants_that_come_after_the_end_of_their_lease_are_no_fast_clock() {
    let mut world = World::new(3);
    let slow = order("k", 3)[1];
    world.ask(1, "k", lasting(Duration::from_secs(60)));
    for lease in 2..=5 {
        world.ask(lease, "k", lasting(Duration::from_secs(1)));
    }
    world.answer(1);
    world.run_for(Duration::from_millis(800));
    world.nodes[slow].mood = Mood::Slow(Duration::from_millis(30));
    for lease in 2..=5 {
        world.end(lease - 1);
        assert!(matches!(world.answer(lease), Answer::Granted { .. }));
        world.run_for(Duration::from_millis(lease * 10));
    }
    world.run_for(Duration::from_millis(200));
    assert!(!world.log.iter().any(|(_, action)| is_clock_ahead(action)));
}

#[test]
fn a_key_that_the_next_lease_has_made_anew_was_not_released() {
    let mut world = World::new(3);
    let [_, mute, gone] = order("k", 3)[..] else {
        unreachable!()
    };
    world.ask(1, "k", terms());
    world.ask(2, "k", lasting(LEASE));
    world.answer(1);
    world.run_for(4 * HOP);
    world.nodes[mute].keys.clear();
    world.nodes[gone].keys.clear();
    world.nodes[mute].mood = Mood::Mute;
    world.release(1);
    world.run_for(HOP);
    world.break_connection(mute);
    world.nodes[mute].mood = Mood::Well;
    assert!(matches!(world.answer(2), Answer::Granted { .. }));
    assert_ne!(world.answer(1), Answer::Released(Outcome::Released));
}

#[test]
fn a_node_that_is_known_to_have_the_key_is_owed_its_release() {
    let mut world = World::new(3);
    let slow = order("k", 3)[0];
    let renewing_too = Terms {
        wait: LEASE,
        ..renewing()
    };
    world.nodes[slow].mood = Mood::Slow(Duration::from_millis(300));
    world.ask(1, "k", renewing());
    world.ask(2, "k", renewing_too);
    world.answer(1);
    world.break_connection(slow);
    world.nodes[slow].mood = Mood::Well;
    world.run_for(Duration::from_millis(100));
    let others = (OTHER, world.now.after(Duration::from_millis(50)));
    world.nodes[slow].keys.insert("k".into(), others);
    world.end(1);
    world.answer(2);
    world.run_for(Duration::from_millis(15));
    world.nodes[slow].mood = Mood::Slow(Duration::from_millis(300));
    world.run_for(Duration::from_millis(400));
    world.nodes[slow].mood = Mood::Well;
    world.run_for(Duration::from_secs(10));
    world.end(2);
    world.run_for(Duration::from_millis(200));
    assert_eq!(world.holders("k"), []);
}

#[test]
fn what_was_left_on_a_node_without_scripts_is_kept_too() {
    let mut world = World::new(3);
    let without = order("k", 3)[2];
    world.ask(1, "k", terms());
    world.ask(2, "k", lasting(LEASE));
    world.answer(1);
    world.run_for(Duration::from_secs(1));
    world.nodes[without].mood = Mood::WithoutScripts;
    world.end(1);
    let Answer::Granted { deadline, .. } = world.answer(2) else {
        panic!("handed over")
    };
    world.run_for(Duration::from_millis(200));
    assert!(
        expiries(&world, "k")
            .iter()
            .all(|&expires| expires >= deadline)
    );
}

#[test]
fn a_node_that_has_lost_its_key_gets_it_back_from_the_leases_that_follow() {
    let mut world = World::new(3);
    let lost = order("k", 3)[2];
    world.ask(1, "k", terms());
    world.answer(1);
    world.run_for(Duration::from_millis(100));
    world.nodes[lost].keys.clear();
    world.ask(2, "k", lasting(LEASE));
    world.end(1);
    world.answer(2);
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.holders("k").len(), 3);
}

#[test]
fn numbers_that_differ_cost_no_timeout_where_a_node_is_silent() {
    let mut world = World::new(3);
    let [ahead, _, silent] = order("k", 3)[..] else {
        unreachable!()
    };
    world.ask(1, "k", terms());
    world.ask(2, "k", lasting(LEASE));
    let first = token(world.answer(1));
    world.run_for(4 * HOP);
    world.nodes[ahead].counter = Token(1_000);
    world.nodes[silent].mood = Mood::Mute;
    let ended = world.now;
    world.end(1);
    assert!(token(world.answer(2)) > first);
    // The hand-over, and another attempt.
    assert_eq!(world.now.since(ended), 2 * ROUND_TRIP);
}

#[test]
fn who_keeps_a_lock_that_was_handed_over_has_it_on_all_nodes_for_its_own_time() {
    let mut world = World::new(5);
    world.ask(1, "k", terms());
    world.ask(2, "k", waiting(LEASE));
    world.answer(1);
    world.run_for(Duration::from_millis(10));
    let asked = world.now;
    world.end(1);
    world.answer(2);
    let is_long = |expires: &Instant| *expires >= asked.after(terms().key_ttl());
    let long = |world: &World| expiries(world, "k").iter().filter(|at| is_long(at)).count();
    assert_eq!(long(&world), 3);
    world.run_for(Duration::from_millis(30));
    assert_eq!(long(&world), 5);
}

#[test]
fn who_hands_over_what_was_lost_meanwhile_hears_that_it_was() {
    let mut world = World::new(5);
    world.ask(1, "k", terms());
    world.ask(2, "k", waiting(LEASE));
    let first = token(world.answer(1));
    world.nodes.iter_mut().for_each(|node| node.keys.clear());
    world.release(1);
    assert_eq!(world.answer(1), Answer::Released(Outcome::AlreadyExpired));
    assert!(token(world.answer(2)) > first);
}

#[test]
fn who_hands_over_to_one_that_goes_away_hears_of_the_release() {
    let mut world = World::new(5);
    world.ask(1, "k", terms());
    world.ask(2, "k", waiting(LEASE));
    world.answer(1);
    world.release(1);
    world.end(2);
    assert_eq!(world.answer(1), Answer::Released(Outcome::Released));
    world.run_for(10 * HOP);
    assert_eq!(world.holders("k"), []);
}

#[test]
fn who_hands_over_to_silent_nodes_does_not_wait_for_longer_than_its_own_timeout() {
    let mut world = World::new(5);
    world.ask(1, "k", terms());
    let patient = Terms {
        node_timeout: LEASE / 2,
        ..waiting(LEASE)
    };
    world.ask(2, "k", patient);
    world.answer(1);
    world
        .nodes
        .iter_mut()
        .for_each(|node| node.mood = Mood::Mute);
    let ended = world.now;
    world.release(1);
    assert_eq!(world.answer(1), Answer::Released(Outcome::Unknown));
    assert_eq!(world.now.since(ended), terms().round_timeout());
}

#[test]
fn where_the_hand_over_fails_the_last_holders_key_is_released() {
    let mut world = World::new(3);
    world.ask(1, "k", terms());
    world.ask(2, "k", waiting(LEASE));
    world.answer(1);
    // Knows no vote, but knows how to release.
    world.nodes[1].forget();
    world.nodes[1].keys.insert(
        "k".into(),
        (OTHER, world.now.after(Duration::from_secs(60))),
    );
    world.nodes[2].mood = Mood::WithoutScripts;
    world.release(1);
    world.run_for(20 * HOP);
    assert!(matches!(world.answer(2), Answer::Granted { .. }));
    world.end(2);
    world.run_for(20 * HOP);
    assert_eq!(world.holders("k"), [1], "which is another's");
}

#[test]
fn a_broken_connection_during_a_hand_over_leaves_nothing_behind() {
    let mut world = World::new(3);
    world.ask(1, "k", terms());
    world.ask(2, "k", waiting(LEASE));
    world.answer(1);
    world.nodes[2].mood = Mood::Mute;
    world.end(1);
    assert!(matches!(world.answer(2), Answer::Granted { .. }));
    world.break_connection(2);
    world.end(2);
    world.nodes[2].mood = Mood::Well;
    world.run_for(100 * HOP);
    assert_eq!(world.holders("k"), []);
}

#[test]
fn who_is_handed_a_lock_and_goes_away_leaves_nothing_behind() {
    let mut world = World::new(3);
    world.ask(1, "k", terms());
    world.ask(2, "k", waiting(LEASE));
    world.answer(1);
    world.end(1);
    world.end(2);
    world.run_for(10 * HOP);
    assert_eq!(world.holders("k"), []);
}

#[test]
fn a_process_that_knows_of_no_other_never_pauses() {
    let mut world = World::new(3);
    for lease in 1..=100 {
        world.ask(lease, "k", waiting(LEASE));
    }
    let began = world.now;
    for lease in 1..=100 {
        world.answer(lease);
        world.end(lease);
    }
    // Several are granted in one round, once it is known that sections are short.
    assert!(world.now.since(began) < 20 * ROUND_TRIP);
    assert_eq!(world.sends(is_release).len(), 3, "the last one's");
}

#[test]
fn a_process_that_knows_of_another_gives_it_a_turn() {
    let mut world = World::new(3);
    for lease in 1..=12 {
        world.ask(lease, "k", waiting(LEASE));
    }
    for node in &mut world.nodes {
        node.is_awaited = true;
    }
    for lease in 1..=9 {
        assert_eq!(world.sends(is_release), [], "lease {lease}");
        world.answer(lease);
        world.end(lease);
    }
    assert_eq!(world.sends(is_release).len(), 3);
    let left = world.now;
    world.answer(10);
    let asked = world.sends(is_acquire)[3 + 8 * 2].0;
    assert_eq!(asked.since(left), 4 * ROUND_TRIP);
}

/// Another process has the lock, or nobody, and the nodes tell.
fn taken_by(world: &mut World, key: &str, owner: Option<Owner>) {
    let expires = world.now.after(Duration::from_secs(60));
    for node in 0..world.nodes.len() {
        let keys = &mut world.nodes[node].keys;
        match owner {
            Some(owner) => keys.insert(key.into(), (owner, expires)),
            None => keys.remove(key),
        };
        world.handle(Event::Changed {
            node: NodeId(node),
            key: Some(key.into()),
        });
    }
    world.run_for(3 * HOP);
}

/// A world where three other processes have had their turns between any two of this one's, and
/// lease 9 waits after such a turn.
fn with_three_others() -> World {
    let mut world = World::new(3);
    world
        .nodes
        .iter_mut()
        .for_each(|node| node.is_awaited = true);
    world.ask(1, "k", waiting(LEASE));
    for lease in 1..9 {
        world.ask(lease + 1, "k", waiting(10 * LEASE));
        world.answer(lease);
        world.run_for(line::LONGEST_TURN);
        world.end(lease);
        if lease < 8 {
            for other in 1..=3 {
                taken_by(&mut world, "k", Some(Owner(other)));
            }
            taken_by(&mut world, "k", None);
        }
    }
    world
}

#[test]
fn a_free_lock_is_left_to_those_who_have_waited_longer() {
    let mut world = with_three_others();
    // It was the turn of one only, so two may come first.
    taken_by(&mut world, "k", Some(Owner(7)));
    let asked = world.sends(is_acquire).len();
    taken_by(&mut world, "k", None);
    // One of them does, and is followed by the other.
    taken_by(&mut world, "k", Some(Owner(8)));
    taken_by(&mut world, "k", Some(Owner(8)));
    taken_by(&mut world, "k", Some(Owner(9)));
    assert_eq!(world.sends(is_acquire).len(), asked);
    let free = world.now;
    taken_by(&mut world, "k", None);
    let (at, _) = world.sends(is_acquire)[asked];
    assert!(at.since(free) <= ROUND_TRIP, "as soon as it is known");
    assert!(matches!(world.answer(9), Answer::Granted { .. }));
}

#[test]
fn a_free_lock_that_nobody_else_wants_is_not_left_for_long() {
    let mut world = with_three_others();
    taken_by(&mut world, "k", Some(Owner(7)));
    let free = world.now;
    taken_by(&mut world, "k", None);
    assert!(matches!(world.answer(9), Answer::Granted { .. }));
    // It asks one node, and then the others.
    assert_eq!(world.now.since(free), 2 * PLACE + 3 * ROUND_TRIP);
}

#[test]
fn a_long_section_is_a_turn() {
    let mut world = World::new(3);
    world.nodes[0].is_awaited = true;
    world.ask(1, "k", terms());
    world.ask(2, "k", waiting(LEASE));
    world.answer(1);
    world.run_for(Duration::from_secs(1));
    world.end(1);
    assert_eq!(world.sends(is_release).len(), 3);
}

#[test]
fn a_single_caller_lets_another_process_have_a_lock_that_it_wants_again() {
    let mut world = World::new(3);
    world.nodes[2].is_awaited = true;
    world.ask(1, "k", waiting(LEASE));
    world.answer(1);
    world.run_for(Duration::from_millis(50));
    world.end(1);
    let left = world.now;
    world.ask(2, "k", waiting(LEASE));
    world.ask(3, "other", waiting(LEASE));
    world.answer(3);
    world.answer(2);
    let asked = world.sends(is_acquire)[6].0;
    assert_eq!(asked.since(left), 4 * ROUND_TRIP);
}

#[test]
fn a_turn_of_another_process_ends_the_pause() {
    let mut world = World::new(3);
    world.nodes[leader("k", 3)].is_awaited = true;
    world.ask(1, "k", waiting(LEASE));
    world.answer(1);
    world.run_for(Duration::from_millis(50));
    world.end(1);
    world.ask(2, "k", waiting(LEASE));
    world.run_for(ROUND_TRIP);
    let tell = |world: &mut World| {
        let node = NodeId(leader("k", 3));
        let key = Some("k".into());
        world.handle(Event::Changed { node, key });
        world.run_for(ROUND_TRIP);
    };
    let asked = world.sends(is_acquire).len();
    held_by_another(&mut world, "k");
    tell(&mut world);
    assert_eq!(world.sends(is_acquire).len(), asked);
    for node in &mut world.nodes {
        node.keys.clear();
    }
    tell(&mut world);
    assert_eq!(world.sends(is_acquire).len(), asked + 1, "one node first");
}

#[test]
fn word_that_a_lock_is_free_is_followed_at_once_and_one_node_is_asked_first() {
    let mut world = World::new(5);
    wait_for_another(&mut world, "k");
    let (told, before) = (world.now, world.sends(is_acquire).len());
    released_by_the_other(&mut world, "k");
    assert!(matches!(world.answer(1), Answer::Granted { .. }));
    // Read, ask one, ask the others.
    assert_eq!(world.now.since(told), 3 * ROUND_TRIP);
    let asked = world.sends(is_acquire).split_off(before);
    assert_eq!(asked.len(), 5);
    assert_eq!(asked[0].1, NodeId(leader("k", 5)));
}

#[test]
fn word_of_a_renewal_asks_for_nothing() {
    let mut world = World::new(5);
    wait_for_another(&mut world, "k");
    let asked = world.sends(is_acquire).len();
    let node = NodeId(leader("k", 5));
    let key = Some("k".into());
    world.handle(Event::Changed { node, key });
    world.run_for(ROUND_TRIP);
    assert_eq!(world.sends(is_acquire).len(), asked);
}

#[test]
fn who_loses_on_the_first_node_disturbs_no_other() {
    let mut world = World::new(5);
    wait_for_another(&mut world, "k");
    let before = world.sends(is_acquire).len();
    released_by_the_other(&mut world, "k");
    world.run_for(ROUND_TRIP);
    let node = leader("k", 5);
    let expires = world.now.after(LEASE);
    world.nodes[node].keys.insert("k".into(), (OTHER, expires));
    world.run_for(ROUND_TRIP);
    assert_eq!(world.sends(is_acquire).len(), before + 1);
}

#[test]
fn a_first_node_that_does_not_answer_is_not_waited_for() {
    let mut world = World::new(5);
    wait_for_another(&mut world, "k");
    let read = |request: &Request| matches!(request, Request::Watch { owner: None, .. });
    let readers = world.sends(read).len();
    released_by_the_other(&mut world, "k");
    assert_ne!(world.sends(read).len(), readers);
    world.run_for(HOP);
    world.nodes[leader("k", 5)].mood = Mood::Mute;
    let muted = world.now;
    assert!(matches!(world.answer(1), Answer::Granted { .. }));
    let waited = world.now.since(muted);
    assert!(
        waited <= Duration::from_millis(10) + 2 * ROUND_TRIP,
        "{waited:?}"
    );
}

#[test]
fn word_that_never_comes_costs_no_more_than_a_pause() {
    let mut world = World::new(5);
    held_by_another(&mut world, "k");
    world.ask(1, "k", waiting(LEASE));
    world.run_for(Duration::from_secs(1));
    let freed = world.now;
    for node in &mut world.nodes {
        node.keys.clear();
    }
    assert!(matches!(world.answer(1), Answer::Granted { .. }));
    assert!(world.now.since(freed) <= Duration::from_millis(64) + ROUND_TRIP);
}
