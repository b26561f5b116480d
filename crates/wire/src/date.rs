//! Dates and times in the formats of the protocols, in UTC.

const DAY_S: u64 = 86_400;

/// A calendar date and time, to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// Year, from 1970.
    pub year: u32,
    /// Month, from 1.
    pub month: u32,
    /// Day of the month, from 1.
    pub day: u32,
    /// Seconds since midnight.
    pub second_of_day: u32,
}

impl Calendar {
    /// Converts seconds since 1970 to a date.
    pub fn from_unix(unix_s: u64) -> Self {
        // Counts in eras of 400 years whose years begin in March, so that the leap day is the last
        // day of a year.
        let days = unix_s / DAY_S + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        Self {
            year: small(year),
            month: small(month),
            day: small(day_of_year - (153 * shifted + 2) / 5 + 1),
            second_of_day: small(unix_s % DAY_S),
        }
    }

    /// Writes `YYYYMMDDTHHMMSSZ`.
    pub fn basic(&self) -> [u8; 16] {
        let mut text = *b"00000000T000000Z";
        write_digits(&mut text[..4], self.year);
        write_digits(&mut text[4..6], self.month);
        write_digits(&mut text[6..8], self.day);
        write_digits(&mut text[9..11], self.second_of_day / 3600);
        write_digits(&mut text[11..13], self.second_of_day / 60 % 60);
        write_digits(&mut text[13..15], self.second_of_day % 60);
        text
    }

    /// Writes `YYYY-MM-DDTHH:MM:SSZ`.
    pub fn iso8601(&self) -> String {
        let Self { year, month, day, second_of_day } = *self;
        let (hour, minute) = (second_of_day / 3600, second_of_day / 60 % 60);
        format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second_of_day % 60)
    }
}

/// Parses an ISO 8601 time in UTC such as `2026-11-21T04:51:06.000000Z`; returns seconds since
/// 1970.
///
/// Fractions are dropped. Returns `None` for anything else, including other time zones.
pub fn parse_iso8601(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00:00")).unwrap_or(text);
    let (date, time) = text.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let time = time.split_once('.').map_or(time, |(seconds, _)| seconds);
    let [hour, minute, second] = numbers(time, ':')?;
    let is_valid = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    is_valid.then(|| days_from_1970(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second)
}

/// Parses the time of an HTTP header such as `Sun, 06 Nov 1994 08:49:37 GMT`; returns seconds since
/// 1970.
///
/// Returns `None` for anything else, including the two obsolete formats, which no server sends any
/// more.
pub fn parse_http(text: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (_, text) = text.trim().strip_suffix(" GMT")?.split_once(", ")?;
    let mut words = text.split(' ');
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let place = MONTHS.find(month).filter(|place| month.len() == 3 && place % 3 == 0)?;
    let iso = format!("{year}-{}-{day}T{time}Z", place / 3 + 1);
    words.next().is_none().then(|| parse_iso8601(&iso))?
}

fn days_from_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|part| part.parse().ok());
    let fields = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(fields)
}

fn write_digits(text: &mut [u8], mut number: u32) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).expect("calendar fields of any 64-bit clock in use fit 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(unix_s: u64) -> String {
        String::from_utf8(Calendar::from_unix(unix_s).basic().to_vec()).unwrap()
    }

    #[test]
    fn known_times_are_formatted_correctly() {
        assert_eq!(basic(0), "19700101T000000Z");
        assert_eq!(basic(951_782_399), "20000228T235959Z");
        assert_eq!(basic(951_782_400), "20000229T000000Z");
        assert_eq!(basic(1_369_353_600), "20130524T000000Z");
        assert_eq!(basic(4_107_542_400), "21000301T000000Z");
    }

    #[test]
    fn every_day_of_two_centuries_reads_back_as_written() {
        for day in 0..73_000_u64 {
            let unix_s = day * DAY_S + day % DAY_S;
            let calendar = Calendar::from_unix(unix_s);
            let text = format!(
                "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
                calendar.year,
                calendar.month,
                calendar.day,
                calendar.second_of_day / 3600,
                calendar.second_of_day / 60 % 60,
                calendar.second_of_day % 60
            );
            assert_eq!(parse_iso8601(&text), Some(unix_s), "{text}");
        }
    }

    #[test]
    fn dates_of_answers_are_parsed_and_nonsense_rejected() {
        assert_eq!(parse_http("Fri, 24 May 2013 00:00:07 GMT"), Some(1_369_353_607));
        for text in [
            "",
            "Fri, 24 May 2013 00:00:00",
            "Fri, 24 ayJ 2013 00:00:00 GMT",
            "Fri, 24 May 2013 00:00:00 x GMT",
            "Friday, 24-May-13 00:00:00 GMT",
            "24 May 2013 00:00:00 GMT",
        ] {
            assert_eq!(parse_http(text), None, "{text}");
        }
    }

    #[test]
    fn times_of_token_services_are_parsed_and_nonsense_rejected() {
        assert_eq!(parse_iso8601("2013-05-24T00:00:00.000000Z"), Some(1_369_353_600));
        assert_eq!(parse_iso8601("2013-05-24T00:00:00+00:00"), Some(1_369_353_600));
        for text in
            ["", "2013-05-24", "2013-13-24T00:00:00Z", "1-1-1T1:1", "2013-05-24T00:00:00+02:00"]
        {
            assert_eq!(parse_iso8601(text), None, "{text}");
        }
    }
}
