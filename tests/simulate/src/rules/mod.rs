//! Rules about time and numbers: what has to be known soon, what must not take long, what must not
//! cost much.

mod cost;
mod liveness;
mod loss;
mod order;
mod period;
mod vote;

pub(crate) use self::{
    cost::{Costs, Outage},
    liveness::Traffic,
};
