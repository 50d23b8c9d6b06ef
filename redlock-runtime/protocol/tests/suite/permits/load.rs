//! Many callers in several processes.

use super::*;

/// Asks again as soon as it has had its section.
fn wish(permits: u32) -> Wish {
    wish_of(permits, 5 * HOP)
}

fn wish_of(permits: u32, hold: Duration) -> Wish {
    let params = waiting(LONG);
    Wish::new(&["k"], LockParams { permits, ..params }, hold).again(Duration::ZERO)
}

#[test]
fn a_process_with_many_waiters_does_not_starve_another() {
    for nodes in [1, 3, 5] {
        let mut world = World::with_clients(nodes, 2);
        let mut crowd = Crowd::default();
        // The other one has as many at a time as there are permits.
        for (client, callers) in [(0, 40), (1, 3)] {
            world.client(client).start_wall_clock();
            for section in 0..callers {
                crowd.ask(&mut world, client, section, wish(3));
            }
            crowd.run_for(&mut world, 20 * HOP);
        }
        crowd.served();
        let time = Duration::from_secs(2);
        crowd.run_for(&mut world, time);
        // If nodes forget the numbers, those of clocks have to be above them.
        let highest = world.nodes.iter().map(|node| node.counter("k")).max();
        let clock = Some(world.now.as_nanos() / 1_000);
        assert!(highest <= clock, "{nodes} nodes: {highest:?} at {clock:?}");
        let served = counts(&crowd.served(), 2);
        let whole = served[0] + served[1];
        assert!(served[1] * 4 >= whole, "{nodes} nodes: {served:?}");
        assert!(served[0] * 4 >= whole, "{nodes} nodes: {served:?}");
        let used = 5 * HOP * whole as u32;
        assert!(used >= time * 3 * 6 / 10, "{nodes} nodes: {used:?} used");
    }
}

/// Sixteen callers of eight permits, in more and more processes.
#[test]
fn a_section_costs_a_few_requests_however_many_processes_wait() {
    for (clients, most) in [(1, 2), (2, 2), (4, 2), (8, 3), (16, 16)] {
        let (served, each) = load(8, clients, 16);
        assert!(each <= most, "{clients} processes: {each} each, {served}");
    }
}

/// Also if each has as many callers as there are permits, and so none that waits when it lets go.
#[test]
fn each_process_has_its_share_of_the_permits() {
    // Looks may fall just before each change, or just behind it, if all hold for one time.
    let holds = [16, 18, 20].map(|hops| hops * HOP);
    let time = Duration::from_secs(1);
    for (permits, clients, callers, most) in [
        (8, 2, 8, 5),
        (8, 2, 9, 5),
        (8, 3, 6, 6),
        (8, 4, 4, 5),
        (8, 8, 2, 6),
        (64, 8, 10, 16),
    ] {
        let (mut sent, mut sections) = (0, 0);
        for hold in holds {
            let mut world = World::with_clients(5, clients);
            let mut crowd = Crowd::default();
            for client in 0..clients {
                world.client(client).start_wall_clock();
                for section in 0..callers {
                    crowd.ask(&mut world, client, section, wish_of(permits, hold));
                }
                crowd.run_for(&mut world, 3 * HOP);
            }
            // Until each has got its share.
            crowd.run_for(&mut world, Duration::from_secs(1));
            crowd.served();
            let before = world.sent();
            crowd.run_for(&mut world, time);
            sent += world.sent() - before;
            let served = crowd.served();
            sections += served.len();
            let served = counts(&served, clients);
            let share = time * (permits / clients as u32) * 9 / 10;
            assert!(
                served.iter().all(|&it| hold * it as u32 >= share),
                "{served:?}"
            );
        }
        let each = sent / sections;
        assert!(each <= most, "{permits} permits, {clients}: {each} each");
    }
}

/// More than its share.
#[test]
fn who_needs_several_permits_gets_them_although_all_others_have_their_share() {
    let mut world = World::with_clients(5, 5);
    let mut crowd = Crowd::default();
    for client in 0..4 {
        for section in 0..4 {
            crowd.ask(&mut world, client, section, wish_of(8, 20 * HOP));
        }
    }
    crowd.run_for(&mut world, Duration::from_secs(1));
    let asked = world.now;
    world.client(4).ask_permits(9, (6, 8), waiting(LONG));
    let mut answer = None;
    while answer.is_none() {
        crowd.run_for(&mut world, HOP);
        answer = world.client(4).answered(9);
        world.assert_within(Duration::from_secs(1), asked);
    }
    assert!(matches!(answer, Some(Answer::Granted { .. })), "{answer:?}");
}

/// The leader counts it as one that the process has.
#[test]
fn a_key_that_the_leader_has_not_deleted_makes_its_process_ask_no_more_often() {
    let mut world = World::with_clients(5, 2);
    let leader = world.leader(&line_key("k"));
    hold(&mut world, 0, 0..1, 2);
    world.nodes[leader].behavior = Behavior::Refusing(Refuses::Releases);
    world.client(0).end(0);
    world.run_for(10 * HOP);
    for section in 1..3 {
        world.client(1).ask_permit(section, 2, waiting(LONG));
        world.client(1).granted(section);
    }
    world.client(0).ask_permit(3, 2, waiting(LONG));
    world.run_for(100 * HOP);
    let before = world.sent();
    world.run_for(Duration::from_secs(1));
    assert!(world.sent() - before <= 30, "{}", world.sent() - before);
}

/// A caller in each process: as many as there are permits, and then some more, which ask one node before the others.
#[test]
fn permits_stay_in_use_when_more_processes_wait_than_there_are_permits() {
    for permits in [8, 64] {
        let (all, _) = load(permits, permits as usize, permits as usize);
        for more in [1, 2, permits as usize] {
            let clients = permits as usize + more;
            let (served, each) = load(permits, clients, clients);
            assert!(
                served * 10 >= all * 7 && each <= 16,
                "{clients} processes, {permits} permits: {served} of {all}, {each} requests each"
            );
        }
    }
}

/// Callers who ask again as soon as they have had a section of five milliseconds, for two seconds: how many sections
/// there were, and how many requests for each of them.
fn load(permits: u32, clients: usize, callers: usize) -> (usize, usize) {
    let mut world = World::with_clients(5, clients);
    let mut crowd = Crowd::default();
    for (section, client) in (1..).zip((0..clients).cycle().take(callers)) {
        world.client(client).start_wall_clock();
        crowd.ask(&mut world, client, section, wish(permits));
    }
    crowd.run_for(&mut world, Duration::from_secs(2));
    crowd.served_and_requests(&world)
}

/// However quick a section is and however it ends. Nor is a permit idle for long once its time is over.
#[test]
fn no_more_sections_start_in_a_period_than_there_are_permits() {
    const CLIENTS: usize = 3;
    let late = 50 * HOP;
    for permits in [1, 3, 8] {
        let count = permits as usize;
        let mut world = World::with_clients(3, CLIENTS);
        let period = LEASE / 2;
        let params = kept_for(period, waiting(LONG));
        for section in 0..3 * u64::from(permits) {
            let client = section as usize % CLIENTS;
            world.client(client).ask_permit(section, permits, params);
        }
        let mut starts = Vec::new();
        while starts.len() < 3 * count {
            assert!(world.step());
            let now = world.now;
            for client in 0..CLIENTS {
                for (section, answer) in world.client(client).answers().to_vec() {
                    world.client(client).answered(section.0);
                    match answer {
                        Answer::Released(_) => continue,
                        Answer::Granted { .. } => starts.push(now),
                        other => panic!("{other:?}"),
                    }
                    match starts.len() % 2 {
                        0 => world.client(client).end(section.0),
                        _ => world.client(client).release(section.0),
                    }
                }
            }
        }
        for (place, start) in starts.iter().enumerate().skip(count) {
            let since = start.since(starts[place - count]);
            assert!(since >= period, "{permits} permits: {since:?}");
        }
        let took = starts[3 * count - 1].since(starts[0]);
        assert!(took <= 2 * period + 2 * late, "{permits} permits: {took:?}");
    }
}

/// Those further back have to hear of it, too.
#[test]
fn permits_that_are_released_at_once_are_all_taken_soon() {
    for age in (0..360).step_by(20) {
        let mut world = World::with_clients(5, 9);
        hold(&mut world, 0, 0..8, 8);
        for client in 1..9 {
            world.client(client).ask_permit(100, 8, waiting(LONG));
            world.run_for(3 * HOP);
        }
        world.run_for(age * HOP);
        for section in 0..8 {
            world.client(0).end(section);
        }
        let freed = world.now;
        for client in 1..9 {
            world.client(client).granted(100);
        }
        world.assert_within(Duration::from_millis(40), freed);
    }
}
