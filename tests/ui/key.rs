use redlock_runtime::{LockError, redis_lock};

struct Order {
    id: u64,
}

#[redis_lock(key = "order:{id")]
async fn brace_unclosed(id: u64) {}

#[redis_lock(key = "order:id}")]
async fn brace_unopened(id: u64) {}

#[redis_lock(key = KEY)]
async fn constant(id: u64) {}

struct Request {
    user: u64,
}

#[redis_lock(key = "order:{rq.user}")]
async fn dotted_unknown(req: Request) {}

#[redis_lock(key = "")]
async fn empty(id: u64) {}

#[redis_lock(key = "order:{if id > 0 { 1 } else { 0 }}")]
async fn expression_with_braces(id: u64) {}

#[redis_lock(key = "order:{id:y}")]
async fn format_spec_unknown(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "{order.id:y}:{id}")]
async fn format_spec_unknown_of_dotted(order: Order, id: u64) {}

#[redis_lock(key = ["order:{id}", "order:{id}"])]
async fn list_twice(id: u64) {}

#[redis_lock(key = "order:{{id}}")]
async fn mustache(id: u64) {}

#[redis_lock(key = "order:%d")]
async fn name_as_text_of_printf(id: u64) {}

#[redis_lock(key = "order:{id + 1}")]
async fn placeholder_expression(id: u64) {}

#[redis_lock(key = "{odrer.id}:{idd}:{id!raw}")]
async fn plain_unknown_beside_raw(order: Order, id: u64) {}

#[redis_lock(key = "file:{pth!raw}")]
async fn raw_unknown(path: &str) {}

#[redis_lock(key = "order:{self}")]
async fn self_missing(id: u64) {}

#[redis_lock(key = "order:{shop}{id:?}")]
async fn values_adjacent(shop: &str, id: u64) {}

#[redis_lock(key = "{shop}order{order.id}")]
async fn values_separated_by_letters(shop: &str, order: Order) {}

#[redis_lock(key = "order:{id:>widht$}")]
async fn width_unknown(id: u64, width: usize) {}

fn main() {}
