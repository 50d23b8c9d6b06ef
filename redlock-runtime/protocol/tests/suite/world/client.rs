//! One client process.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::*;

pub(crate) struct Client {
    pub(crate) protocol: Protocol,
    settings: Settings,
    pub(super) answers: Vec<(SectionId, Answer)>,
    pub(super) log: Vec<(Instant, Action)>,
    pub(super) states: Vec<Option<NodeState>>,
    drained: Option<ShutdownError>,
    /// It can connect to none of these nodes.
    pub(super) is_cut_off: Vec<bool>,
    pub(super) may_read_info: bool,
    /// How much longer than others' its requests take to each node.
    pub(super) lag: Vec<Duration>,
    pub(super) paused_until: Instant,
    /// How often it has been restarted.
    pub(super) incarnation: u64,
    wall_micros: Arc<AtomicU64>,
    has_wall_clock: bool,
    number: usize,
}

impl Client {
    pub(super) fn new(number: usize, nodes: usize, settings: Settings, now: Instant) -> Self {
        // A clock that stands still, so that every token is a matter of counters.
        let wall_micros = Arc::new(AtomicU64::new(1));
        let env = env(number as u128 + 1, &wall_micros);
        Self {
            protocol: Protocol::new(nodes, settings, env, now),
            settings,
            answers: Vec::new(),
            log: Vec::new(),
            states: vec![None; nodes],
            drained: None,
            is_cut_off: vec![false; nodes],
            may_read_info: true,
            lag: vec![Duration::ZERO; nodes],
            paused_until: now,
            incarnation: 0,
            wall_micros,
            has_wall_clock: false,
            number,
        }
    }

    fn restart(&mut self, now: Instant) {
        self.incarnation += 1;
        let seed = (u128::from(self.incarnation) << 64) + self.number as u128 + 1;
        let env = env(seed, &self.wall_micros);
        self.protocol = Protocol::new(self.states.len(), self.settings, env, now);
        self.paused_until = now;
        self.answers.clear();
        self.log.clear();
        self.states.fill(None);
        self.drained = None;
    }

    pub(super) fn tick(&self, now: Instant) {
        if self.has_wall_clock {
            let micros = now.as_nanos() / 1_000;
            self.wall_micros.store(micros, Ordering::Relaxed);
        }
    }

    pub(super) fn note(&mut self, action: &Action, now: Instant) {
        self.log.push((now, action.clone()));
        match action {
            Action::Answer { section, answer } => self.answers.push((*section, answer.clone())),
            Action::NodeChanged { node, state } => self.states[node.0] = Some(state.clone()),
            Action::Drained(left) => self.drained = Some(*left),
            _ => {}
        }
    }

    /// So many requests.
    pub(super) fn sent(&self) -> usize {
        let is_request = |(_, action): &&(Instant, Action)| matches!(action, Action::Send(_));
        self.log.iter().filter(is_request).count()
    }

    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        let wakeup = self.protocol.next_wakeup()?;
        Some(wakeup.max(self.paused_until))
    }
}

/// Random numbers from this seed on, and this clock.
pub(crate) fn env(seed: u128, wall_micros: &Arc<AtomicU64>) -> Env {
    let mut state = seed;
    let random = move || {
        state = state
            .wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645)
            .wrapping_add(1);
        // The low bits of the state itself repeat soon.
        state.rotate_right(64) ^ state.rotate_right(29)
    };
    let wall_micros = Arc::clone(wall_micros);
    Env {
        random: Box::new(random),
        wall_micros: Box::new(move || wall_micros.load(Ordering::Relaxed)),
    }
}

/// A lock with two permits.
pub(crate) const POOL: &str = "permits";

/// Both permits of it.
pub(crate) const WHOLE_POOL: &str = "whole permits";

/// What a test calls `shared a` is the lock `a`, which is shared.
pub(crate) fn member(name: &str) -> Member {
    let shared = name.strip_prefix("shared ");
    let whole = name.strip_prefix("whole ");
    Member {
        key: shared.or(whole).unwrap_or(name).into(),
        permits: 2 * u32::from(name.ends_with(POOL)),
        weight: 1 + u32::from(whole.is_some()),
        mode: shared.map_or(Mode::Exclusive, |_| Mode::Shared),
    }
}

/// One key is asked for as such.
pub(crate) fn question(section: SectionId, keys: &[&str], mut params: LockParams) -> Event {
    match keys {
        &[key] if key != WHOLE_POOL => {
            if key == POOL {
                params.permits = 2;
            }
            Event::Ask {
                section,
                key: key.into(),
                params,
            }
        }
        keys => Event::AskAll {
            section,
            members: keys.iter().map(|key| member(key)).collect(),
            params,
        },
    }
}

/// A client, together with the world that it lives in.
pub(crate) struct Process<'world> {
    pub(super) world: &'world mut World,
    pub(super) number: usize,
}

impl Acts for Process<'_> {
    fn place(&self) -> (&World, usize) {
        (self.world, self.number)
    }

    fn place_mut(&mut self) -> (&mut World, usize) {
        (self.world, self.number)
    }
}

/// The first client, which is the only one in most worlds.
impl Acts for World {
    fn place(&self) -> (&World, usize) {
        (self, 0)
    }

    fn place_mut(&mut self) -> (&mut World, usize) {
        (self, 0)
    }
}

/// What a client does and sees.
pub(crate) trait Acts {
    /// The world that the client lives in, and its number there.
    fn place(&self) -> (&World, usize);

    fn place_mut(&mut self) -> (&mut World, usize);

    fn me(&self) -> &Client {
        let (world, number) = self.place();
        &world.clients[number]
    }

    fn me_mut(&mut self) -> &mut Client {
        let (world, number) = self.place_mut();
        &mut world.clients[number]
    }

    fn handle(&mut self, event: Event) {
        let (world, number) = self.place_mut();
        world.hand_in(number, event);
    }

    fn ask(&mut self, section: u64, key: &str, params: LockParams) {
        self.ask_all(section, &[key], params);
    }

    fn ask_all(&mut self, section: u64, keys: &[&str], params: LockParams) {
        self.handle(question(SectionId(section), keys, params));
    }

    /// For one of so many permits of `k`.
    fn ask_permit(&mut self, section: u64, permits: u32, params: LockParams) {
        self.ask(section, "k", LockParams { permits, ..params });
    }

    /// For so many of so many permits of `k` at once.
    fn ask_permits(&mut self, section: u64, of: (u32, u32), params: LockParams) {
        let (weight, permits) = of;
        if weight == 1 {
            return self.ask_permit(section, permits, params);
        }
        let section = SectionId(section);
        let members = vec![Member {
            permits,
            weight,
            ..Member::alone("k".into())
        }];
        self.handle(Event::AskAll {
            section,
            members,
            params,
        });
    }

    /// The section ends, without a word about its release.
    fn end(&mut self, section: u64) {
        let (section, report) = (SectionId(section), false);
        self.handle(Event::End { section, report });
    }

    /// The section ends, and its caller awaits what becomes of its release.
    fn release(&mut self, section: u64) {
        let (section, report) = (SectionId(section), true);
        self.handle(Event::End { section, report });
    }

    fn extend(&mut self, section: u64) {
        let (section, lease) = (SectionId(section), None);
        self.handle(Event::Extend { section, lease });
    }

    fn extend_to(&mut self, section: u64, length: Duration) {
        let (section, guard_band) = (SectionId(section), default_guard_band(length));
        let lease = Some(LeaseParams { length, guard_band });
        self.handle(Event::Extend { section, lease });
    }

    fn share(&mut self, section: u64) {
        let section = SectionId(section);
        self.handle(Event::Share { section });
    }

    /// The holder says something to those who look at the lock.
    fn note(&mut self, section: u64, note: &str) {
        let (section, note) = (SectionId(section), note.into());
        self.handle(Event::Note { section, note });
    }

    fn shut_down(&mut self, timeout: Duration, abort_holders: bool) {
        self.handle(Event::Shutdown {
            timeout,
            abort_holders,
        });
    }

    /// A node says that this key, or any key, may have changed.
    fn hear_of_change(&mut self, node: usize, key: Option<&str>) {
        let (node, key) = (NodeId(node), key.map(Arc::from));
        self.handle(Event::Changed { node, key });
    }

    /// Runs until the caller of `section` has been answered.
    fn answer(&mut self, section: u64) -> Answer {
        let end = self.place().0.now.after(PATIENCE);
        loop {
            if let Some(answer) = self.answered(section) {
                return answer;
            }
            let (world, _) = self.place_mut();
            assert!(world.now < end, "section {section} is not answered");
            assert!(world.step(), "section {section} is never answered");
        }
    }

    /// The next answer to the caller of `section`, if there is one by now.
    fn answered(&mut self, section: u64) -> Option<Answer> {
        let answers = &mut self.me_mut().answers;
        let position = answers.iter().position(|(id, _)| id.0 == section)?;
        Some(answers.remove(position).1)
    }

    /// The next answer to one of these sections, if there is one by now.
    fn next_of<T>(&mut self, of: &BTreeMap<(usize, u64), T>) -> Option<(u64, Answer)> {
        let (world, number) = self.place_mut();
        let answers = &mut world.clients[number].answers;
        let is_it = |(section, _): &(SectionId, _)| of.contains_key(&(number, section.0));
        let (section, answer) = answers.remove(answers.iter().position(is_it)?);
        Some((section.0, answer))
    }

    /// The deadline and the token of a section, once it is granted.
    fn granted(&mut self, section: u64) -> (Instant, Token) {
        match self.answer(section) {
            Answer::Granted {
                deadline, token, ..
            } => (deadline, token),
            other => panic!("section {section} is not granted: {other:?}"),
        }
    }

    fn refusal(&mut self, section: u64) -> Refusal {
        match self.answer(section) {
            Answer::Refused(refusal) => refusal,
            other => panic!("section {section} is not refused: {other:?}"),
        }
    }

    /// The cause for which a section is refused.
    fn refused(&mut self, section: u64) -> Cause {
        self.refusal(section).cause
    }

    /// Asks for a lock, and gets it. The deadline and the token.
    fn lock(&mut self, section: u64, key: &str, params: LockParams) -> (Instant, Token) {
        self.ask(section, key, params);
        self.granted(section)
    }

    /// Is refused because others have the lock. For how long, if that is known.
    fn contended(&mut self, section: u64) -> Option<Duration> {
        match self.refused(section) {
            Cause::Contended { retry_after } => retry_after,
            other => panic!("section {section} is refused for {other:?}"),
        }
    }

    /// Is refused because nodes that have lost their memory do not vote.
    fn quarantined(&mut self, section: u64) {
        let cause = self.refused(section);
        let is_it = matches!(cause, Cause::Quarantined { .. });
        assert!(is_it, "section {section} is refused for {cause:?}");
    }

    /// The new deadline.
    fn extended(&mut self, section: u64) -> Instant {
        match self.answer(section) {
            Answer::Extended { deadline } => deadline,
            other => panic!("section {section} is not extended: {other:?}"),
        }
    }

    fn lost(&mut self, section: u64) {
        let answer = self.answer(section);
        let is_lost = matches!(answer, Answer::Over(Loss::Lost { .. }));
        assert!(is_lost, "section {section}: {answer:?}");
    }

    fn expired(&mut self, section: u64) {
        let answer = self.answer(section);
        let is_expired = matches!(answer, Answer::Over(Loss::Expired { .. }));
        assert!(is_expired, "section {section}: {answer:?}");
    }

    /// The section ends, and this is what becomes of its release.
    #[track_caller]
    fn assert_release(&mut self, section: u64, release: Release) {
        self.release(section);
        assert_eq!(self.answer(section), Answer::Released(release));
    }

    /// What nobody has asked [`Acts::answer`] for yet.
    fn answers(&self) -> &[(SectionId, Answer)] {
        &self.me().answers
    }

    /// A section whose lock was lost, or whose lease ended, and that has not asked for that yet.
    fn is_any_over(&self) -> bool {
        let mut answers = self.answers().iter();
        answers.any(|(_, answer)| matches!(answer, Answer::Over(_)))
    }

    /// Every action, with the time at which it was taken.
    fn log(&self) -> &[(Instant, Action)] {
        &self.me().log
    }

    /// The requests of this kind.
    fn sends(&self, kind: impl Fn(&Request) -> bool) -> Vec<(Instant, NodeId)> {
        let sends = self.log().iter().filter_map(|(at, action)| match action {
            Action::Send(order) if kind(&order.body) => Some((*at, order.node)),
            _ => None,
        });
        sends.collect()
    }

    /// When requests of this kind were sent to this node.
    fn sends_to(&self, node: usize, kind: impl Fn(&Request) -> bool) -> Vec<Instant> {
        let sends = self.sends(kind).into_iter();
        let sends = sends.filter(|(_, to)| to.0 == node);
        sends.map(|(at, _)| at).collect()
    }

    fn under_replicated(&self) -> usize {
        self.me().protocol.under_replicated()
    }

    /// The state of a node as it was reported last.
    fn state(&self, node: usize) -> NodeState {
        let state = self.me().states[node].clone();
        state.expect("every node has a state once something is known of it")
    }

    fn drained(&self) -> Option<ShutdownError> {
        self.me().drained
    }

    fn break_connection(&mut self, node: usize) {
        let (world, number) = self.place_mut();
        if let Some(connection) = world.nodes[node].connections.remove(&number) {
            self.handle(Event::Disconnected {
                node: NodeId(node),
                connection: connection.id,
                reason: "reset".into(),
            });
        }
    }

    /// It cannot connect to this node any more, as the others can.
    fn cut_off(&mut self, node: usize) {
        self.me_mut().is_cut_off[node] = true;
        self.break_connection(node);
    }

    fn reconnect(&mut self, node: usize) {
        self.me_mut().is_cut_off[node] = false;
    }

    /// It is a user without the right to `INFO`.
    fn forbid_info(&mut self) {
        self.me_mut().may_read_info = false;
    }

    /// Its requests take so much longer to this node.
    fn set_lag(&mut self, node: usize, lag: Duration) {
        self.me_mut().lag[node] = lag;
    }

    /// Its wall clock, which stands still in this world, goes like those of the nodes.
    fn start_wall_clock(&mut self) {
        self.me_mut().has_wall_clock = true;
    }

    fn set_wall_micros(&mut self, micros: u64) {
        self.me().wall_micros.store(micros, Ordering::Relaxed);
    }

    /// Nothing is known of any key any more.
    fn is_idle(&self) -> bool {
        let state = format!("{:?}", self.me().protocol);
        let nothing = [
            "entries: {}, ids: {}",
            "compounds: {}, parts: {}",
            "moves: []",
        ];
        nothing.iter().all(|none| state.contains(none))
            && state.matches("sections: {}").count() == 1
    }

    /// Of how many keys anything is known.
    fn keys(&self) -> usize {
        let state = format!("{:?}", self.me().protocol);
        state.matches("Entry {").count()
    }

    /// Nothing reaches the process, and none of its timers wakes, for so long.
    fn pause_for(&mut self, time: Duration) {
        let until = self.place().0.now.after(time);
        self.me_mut().paused_until = until;
    }

    /// The same, and what it was about to send is sent after that.
    fn stop_for(&mut self, time: Duration) {
        let (world, number) = self.place_mut();
        world.put_off_requests(number, time);
        self.pause_for(time);
    }

    /// Ends the process, without a release, and starts another one in its place.
    fn restart(&mut self) {
        let (world, number) = self.place_mut();
        world.clients[number].restart(world.now);
        for node in &mut world.nodes {
            node.connections.remove(&number);
        }
        world.carry_out(number);
    }
}
