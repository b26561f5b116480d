//! What the clients of one load thread share without a lock.

use std::any::Any;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

thread_local! {
    static SHARED: RefCell<Vec<Weak<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Returns this thread's value of a type that fits, or makes it. It lives as long as a client
/// holds it.
pub(crate) fn shared<T: Any>(fits: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> Rc<T> {
    SHARED.with_borrow_mut(|all| {
        all.retain(|weak| weak.strong_count() > 0);
        let mut found = all.iter().filter_map(|weak| weak.upgrade()?.downcast::<T>().ok());
        if let Some(value) = found.find(|value| fits(value)) {
            return value;
        }
        let value = Rc::new(make());
        let weak: Weak<dyn Any> = Rc::downgrade(&(Rc::clone(&value) as Rc<dyn Any>));
        all.push(weak);
        value
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_what_fits_and_the_last_one_takes_it_away() {
        let first = shared(|_: &u32| true, || 1_u32);
        let second = shared(|_: &u32| true, || 2_u32);
        assert!(Rc::ptr_eq(&first, &second));
        let other = shared(|value: &u32| *value == 3, || 3_u32);
        assert_eq!(*other, 3);
        drop((first, second));
        assert_eq!(*shared(|value: &u32| *value != 3, || 4_u32), 4);
    }
}
