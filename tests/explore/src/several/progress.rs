//! Whether a caller can still get all of its keys.

use super::{
    NODES, QUORUMS, Several, State,
    caller::{Event, Phase},
    keys::{Asked, Section},
};

/// More than it ever takes.
const MOST_STEPS: usize = 40;

impl<const P: usize, const K: usize> Several<P, K> {
    /// From no state on may it be impossible that a caller gets what it asks for: that the holders let go,
    /// the others do not win, and nothing is lost any more must be enough.
    pub(super) fn stuck(&self, state: &State<P, K>, process: usize) -> Option<String> {
        let mut state = *state;
        for _ in 0..MOST_STEPS {
            let caller = &state.callers[process];
            if !caller.is_there()
                || matches!(caller.phase, Phase::Held | Phase::Over | Phase::Ending)
            {
                return None;
            }
            let before = state;
            for other in (0..P).filter(|&other| other != process) {
                self.stand_aside(&mut state, other);
            }
            self.go_on(&mut state, process);
            if state == before {
                break;
            }
            // Numbers need no more room than there is.
            state.count_from_the_lowest();
            state.make_room();
        }
        Some("a caller can never get its keys".to_owned())
    }

    fn stand_aside(&self, state: &mut State<P, K>, process: usize) {
        match state.callers[process].phase {
            Phase::Held | Phase::Over => {
                let _ = self.tell(state, process, Event::End { report: false });
            }
            _ => {}
        }
        for key in 0..K {
            let at = (process, key);
            *state = match state.keys[process][key].section {
                Section::Asked { waits } if self.may_be_refused(state, process, waits) => {
                    let mut next = *state;
                    next.keys[process][key].section = Section::None;
                    let _ = self.tell(&mut next, process, Event::Refused { key });
                    next
                }
                Section::Held { asked } if asked != Asked::Nothing => {
                    self.not_extended(state, at).0
                }
                Section::Ending => self.reported(state, at).0,
                _ => *state,
            };
            if let Some((next, _)) = self.let_go(state, at) {
                *state = next;
            }
        }
    }

    fn go_on(&self, state: &mut State<P, K>, process: usize) {
        for key in 0..K {
            let at = (process, key);
            if let Some((next, _)) = self.let_go(state, at) {
                *state = next;
            }
            match state.keys[process][key].section {
                Section::Asked { .. } => {
                    let granted = |&by: &u8| self.grant(state, at, by, false);
                    if let Some((next, _)) = QUORUMS.iter().find_map(granted) {
                        *state = next;
                    }
                }
                Section::Held { asked } if asked != Asked::Nothing => {
                    for node in 0..NODES {
                        if let Some((next, _)) = self.put_back(state, at, node) {
                            *state = next;
                        }
                    }
                    let extended = |&by: &u8| self.extend(state, at, by);
                    if let Some((next, _)) = QUORUMS.iter().find_map(extended) {
                        *state = next;
                    }
                }
                _ => {}
            }
        }
    }
}
