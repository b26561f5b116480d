"""The load generator's own table of drivers, and a target for campaigns of tests."""

from loadstone.campaign.drivers import Drivers, read_drivers

DRIVERS: Drivers = read_drivers()

STORE = "targets: {store: {driver: s3, endpoint: http://store}}\n"
