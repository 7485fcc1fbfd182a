//! Reservation notifications of one controller (Base 5.1.12.1.32).

use nvme::reservation::{NotificationType, ReservationNotification};
use nvme::{U32, U64};
use std::collections::VecDeque;

/// Unread notifications that a controller keeps. More are lost; the count shows that.
const MAX_NOTIFICATIONS: usize = 64;

/// Notifications of one controller.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    /// Ever made since the last reset, lost ones included.
    count: u64,
    unread: VecDeque<ReservationNotification>,
}

impl Notifications {
    /// Adds a notification. It is lost if too many are unread.
    pub fn push(&mut self, kind: NotificationType, nsid: u32) {
        // 0 is the count of an empty page.
        self.count = self.count.checked_add(1).unwrap_or(1);
        if self.unread.len() < MAX_NOTIFICATIONS {
            self.unread.push_back(ReservationNotification {
                count: U64::new(self.count),
                kind,
                nsid: U32::new(nsid),
                ..ReservationNotification::default()
            });
        }
    }

    /// The oldest that was not read, or an empty page (Base 5.1.12.1.32).
    pub fn page(&self) -> ReservationNotification {
        let mut page = self.unread.front().copied().unwrap_or_default();
        page.available = u8::try_from(self.unread.len().saturating_sub(1)).unwrap_or(u8::MAX);
        page
    }

    /// The oldest was read; whether there are more.
    pub fn read(&mut self) -> bool {
        self.unread.pop_front();
        !self.unread.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_beyond_the_limit_are_lost_and_counted() {
        let mut all = Notifications::default();
        (0..=MAX_NOTIFICATIONS).for_each(|_| all.push(NotificationType::RESERVATION_RELEASED, 1));
        assert_eq!((all.page().count.get(), all.page().available), (1, MAX_NOTIFICATIONS as u8 - 1));
        let mut read = 1;
        while all.read() {
            read += 1;
        }
        assert_eq!((read, all.page().count.get()), (MAX_NOTIFICATIONS, 0));
        all.push(NotificationType::RESERVATION_RELEASED, 1);
        assert_eq!(all.page().count.get(), MAX_NOTIFICATIONS as u64 + 2);
    }
}
